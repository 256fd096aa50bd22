// What there is to know of a table before features are made of it: statistics of every column, from
// one pass in bounded memory, and the features that they suggest.
#ifndef RUBATO_FEATURES_ANALYSIS_H_
#define RUBATO_FEATURES_ANALYSIS_H_

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/types/span.h"
#include "rubato/features/features_spec.h"
#include "rubato/features/number_stats.h"
#include "rubato/features/number_style.h"
#include "rubato/features/sketches.h"
#include "rubato/features/times.h"

namespace rubato {

// Of one column. Rows seen in any split and merged give the same, but for the counts of texts in a
// column with more than kCommonTexts distinct ones, where the bound on their error holds.
class ColumnStats {
 public:
  static constexpr size_t kCommonTexts = 32768;
  static constexpr size_t kLongest = 200;  // A longer text is prose, and nobody's category.

  void Add(absl::string_view cell);
  void Merge(const ColumnStats& other);

  int64_t cells() const { return cells_; }
  int64_t missing() const { return missing_; }
  int64_t present() const { return cells_ - missing_; }
  // Present cells that are finite numbers, and those of them that are integers.
  int64_t numbers() const { return numbers_.count; }
  int64_t integers() const { return numbers_.integers; }
  // All present cells are numbers; or nearly all, so that the others are slips of the pen.
  bool is_all_numbers() const { return numbers() > 0 && numbers() == present(); }
  bool is_number() const { return numbers() > 0 && 50 * strangers() <= present(); }
  int64_t strangers() const { return present() - numbers(); }
  // Some of the present texts that are no numbers, the first by the alphabet, with their counts.
  const std::map<std::string, int64_t>& stranger_texts() const { return stranger_texts_; }
  double mean() const { return numbers_.mean; }
  double deviation() const { return numbers_.deviation(); }
  double min() const { return numbers_.min; }
  double max() const { return numbers_.max; }
  const QuantileSketch& quantiles() const { return numbers_.quantiles; }
  // How the column seems to write its numbers, if it is one of numbers at all.
  NumberStyle BestStyle() const;
  // Texts, with their counts, without which it would be a column of numbers or times: one or two,
  // as "-" or "0000-00-00", and most cells are numbers. None if it is one as it is, or if these are
  // few different ones, which are as good as names.
  std::map<std::string, int64_t> MarksOfNothing() const;
  // From now on its numbers are read so, and `marks` are missing; there is nothing to be added
  // after that.
  void ReadAs(NumberStyle style);
  void TakeForMissing(const std::map<std::string, int64_t>& marks);
  const std::map<std::string, int64_t>& taken_for_missing() const { return taken_for_missing_; }
  NumberStyle style() const { return style_; }
  // Of amounts: whether some can be nothing else. Else commas may be decimal ones after all.
  bool is_surely_amounts() const { return sure_amounts_ > 0; }
  // Of times: whether there are several of this part.
  bool HasParts(TimePart part) const;
  // One of its texts, as the column is read.
  std::optional<double> NumberOf(absl::string_view text) const;
  // A text of kLongest is none of the cells: it begins as they do, and ends in a hash of them.
  const CommonTexts& common() const { return common_; }
  static bool IsCutShort(absl::string_view text) { return text.size() >= kLongest; }
  // Of one of these texts, what the cells begin with.
  static absl::string_view BeginningOf(absl::string_view text) {
    return IsCutShort(text) ? text.substr(0, kLongest - kHashDigits) : text;
  }
  // The same without its last part, of which only the beginning may be known.
  static absl::string_view WholeParts(absl::string_view text, char separator) {
    const absl::string_view beginning = BeginningOf(text);
    return IsCutShort(text) ? beginning.substr(0, beginning.rfind(separator)) : beginning;
  }
  // Of present values; exact while common() is.
  int64_t distinct() const;
  // Texts, other than the empty one, that seem to mean "missing": "?", "NA", ... Among names they
  // may be some: Namibia is NA.
  const std::map<std::string, int64_t>& missing_texts() const { return missing_texts_; }

 private:
  static constexpr size_t kStrangers = 5, kHashDigits = 16;

  using Texts = std::map<std::string, int64_t>;

  static void AddStranger(absl::string_view text, int64_t count, Texts* texts);

  // What a column's cells are in another style than the plain one.
  struct Other {
    NumberStats numbers;               // Of cells that are no plain numbers, but are so.
    Texts strange;                     // Some that are not, and are in a third style.
    uint32_t hours = 0, weekdays = 0;  // Of times: a bit for each that there is.
  };

  bool IsMostly(NumberStyle style) const;
  NumberStyle TimeStyle() const;
  void AddStyled(absl::string_view cell);

  int64_t cells_ = 0, missing_ = 0;
  NumberStats numbers_;
  std::array<Other, kNumberStyles> others_;  // By style.
  CommaStats commas_;                        // Of cells that are numbers with a decimal comma.
  int64_t points_ = 0;                       // Plain numbers with a point.
  int64_t sure_amounts_ = 0;
  int64_t points_in_dates_ = 0;  // Cells such as 18.11.2026.
  NumberStyle style_ = NumberStyle::kPlain;
  DistinctSketch distinct_;
  CommonTexts common_{kCommonTexts};
  Texts missing_texts_;
  Texts taken_for_missing_;
  Texts names_;           // Some that are numbers in no style.
  Texts stranger_texts_;  // Some that are none in style_.
};

struct Analysis {
  std::string format;                // Of the data.
  std::vector<std::string> columns;  // In their order.
  std::vector<ColumnStats> stats;    // As `columns`.
  int64_t rows = 0;
  int64_t bad_rows = 0;  // Records with another number of columns.
  // Where the first of them is, if in a file, and what is wrong with it: "a.csv:7: has 3 columns".
  std::string first_bad;
  int64_t first_bad_at = 0;  // Which record that is, of all.

  void Add(absl::Span<const absl::string_view> cells);
  void Merge(const Analysis& other);
  // Reads every column in the style that its numbers seem to have, and without what marks that
  // there is none; a label is one of a few texts, and stays as it is. The second: as `other` does.
  void ChooseStyles(absl::string_view label);
  void ReadAs(const Analysis& other);
};

// The label where nobody named one: the column called label, click, clicked or target, in large or
// small letters, or else the first. Every command asks here.
const std::string& LabelOf(const Analysis& analysis);
bool IsCalledALabel(const std::string& column);

// A column with more different values than are counted (ColumnStats::kCommonTexts), so that rare
// ones cannot be told apart for certain.
struct LooseColumn {
  enum Kept {
    kFrequent,  // Those seen `error` times more often than asked for certain; near it some are not.
    kCounted,   // Whatever has a count: all that were seen more than `error` times, some others.
    kAll,       // Every value has an id.
  };
  std::string column;
  Kept kept = kFrequent;
  int64_t error = 0;  // By so many a count may be too low.
};

struct ProposalOptions {
  int64_t min_count = 0;              // So often a value must occur; 0: the table says.
  std::vector<std::string> positive;  // The label's values that are a yes; empty: the table says.
};

// A column of which no feature is made.
struct UnusedColumn {
  std::string column;
  std::string why;  // "never changes"
};

// A column of numbers with some cells that are none, and count as missing.
struct StrangeColumn {
  std::string column;
  int64_t count = 0;               // Of those cells.
  std::vector<std::string> texts;  // Some of them.
};

// A column of numbers or times with one or two texts that say that there is none, as "-".
struct MarkedColumn {
  std::string column;
  std::map<std::string, int64_t> texts;  // With their counts.
};

// A column of names of which some are no UTF-8, which features.yaml cannot hold.
struct GarbledColumn {
  std::string column;
  std::string text;        // One of them.
  bool is_hashed = false;  // They are so many that every value has an id; else they are rare ones.
};

// A column of entries with values far from 1: what is learned of the others drowns in them.
struct UnscaledColumn {
  std::string column;
  std::string entry;  // The one with the largest, by size.
  double value = 0;
};

// A column of numbers with a comma in them, as 3,14 or 1,500.
struct CommaColumn {
  std::string column;
  std::string text;         // One of them.
  bool is_decimal = false;  // It is read so; else they are texts, until somebody says which.
};

// A column of amounts or of times.
struct StyledColumn {
  std::string column;
  std::string text;  // One of them.
  NumberStyle style = NumberStyle::kPlain;
  bool is_sure = true;  // Else commas that part thousands may be decimal ones.
};

// A column of dates that nobody can read for certain, as 11/12/2026, and are names therefore.
struct UnreadDates {
  std::string column, text;
};

// A column of lists whose values end in numbers, as a:0.5.
struct WeightColumn {
  std::string column, text;
  bool is_read = false;    // As weights; else they are parts of names, until somebody says which.
  bool is_summed = false;  // Else they are too large for that, and only their ratios count.
};

// A text of a column of names that counts as missing, since columns of numbers say so by it:
// `missing` holds for all columns.
struct LostName {
  std::string column, text;
  int64_t count = 0;
};

// What ProposeFeatures decided that its features do not say.
struct ProposalNotes {
  int64_t min_count = 0;           // So often a value must occur: as asked, or as the table says.
  std::vector<LooseColumn> loose;  // Where that could not be kept to.
  std::vector<UnusedColumn> unused;
  std::vector<StrangeColumn> strange;
  std::vector<MarkedColumn> marked;
  std::vector<GarbledColumn> garbled;
  std::vector<UnscaledColumn> unscaled;
  std::vector<CommaColumn> commas;
  std::vector<StyledColumn> styled;
  std::vector<UnreadDates> dates;
  std::vector<WeightColumn> weights;
  std::vector<LostName> lost;
  std::vector<std::string> quantities;  // Columns of integers that have bins, several to one.
  std::vector<std::string> numbered;    // Those taken for ids since they are numbered through.
};

// Features that train well as they are. Numbers become bins of like weight, and a dense column,
// by its logarithm if they are skewed; where a few cells are none, these are missing. Times are
// numbers too, and besides their hour and day of the week. Texts keep the values that occur often
// enough to learn from, or all, by their hash, if some cannot be counted or written down. Columns
// that never change or never repeat, or have no value that occurs often enough, are left out.
// INVALID_ARGUMENT if `label` is not there or is no label of two classes, nor marks out of a few,
// unless `options` say what is a yes. `notes` may be null.
absl::StatusOr<FeaturesSpec> ProposeFeatures(const Analysis& analysis, const std::string& label,
                                             const ProposalOptions& options = {},
                                             ProposalNotes* notes = nullptr);

}  // namespace rubato

#endif  // RUBATO_FEATURES_ANALYSIS_H_
