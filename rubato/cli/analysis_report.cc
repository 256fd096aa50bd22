#include "rubato/cli/analysis_report.h"

#include <algorithm>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rubato/cli/progress.h"
#include "rubato/features/utf8.h"

namespace rubato {
namespace {

constexpr size_t kTopShown = 3;
constexpr size_t kTopInJson = 20;

double Share(int64_t part, int64_t all) {
  return all == 0 ? 0 : static_cast<double>(part) / static_cast<double>(all);
}

// A value as it can stand in a table or a JSON text, whatever its bytes are.
std::string Printable(const std::string& text) {
  return IsUtf8(text) ? text : absl::CHexEscape(text);
}

// The first `columns` of a text as a terminal counts them, about: letters of two and more bytes
// take one each, and what was cut is no letter cut in two.
std::string Beginning(const std::string& text, size_t columns) {
  size_t end = 0;
  for (; end < text.size(); ++end) {
    const bool begins_letter = (static_cast<unsigned char>(text[end]) & 0xc0) != 0x80;
    if (begins_letter && columns-- == 0) break;
  }
  return text.substr(0, end);
}

size_t WidthOf(const std::string& text) {
  return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](const char c) {
    return (static_cast<unsigned char>(c) & 0xc0) != 0x80;
  }));
}

// On one line: a tab in a value is shown, and letters of all languages stay as they are.
std::string OneLine(const std::string& text) {
  return IsUtf8(text) ? absl::Utf8SafeCHexEscape(text) : absl::CHexEscape(text);
}

std::string TopTexts(const ColumnStats& stats) {
  std::vector<std::string> shown;
  for (const CommonTexts::Item& item : stats.common().Items()) {
    if (shown.size() == kTopShown) break;
    shown.push_back(absl::StrFormat("%s %.0f%%", OneLine(Beginning(item.text, 20)),
                                    100 * Share(item.count, stats.present())));
  }
  return absl::StrJoin(shown, ", ");
}

std::string Spread(const ColumnStats& stats) {
  if (!stats.is_number()) return TopTexts(stats);
  const std::string range = absl::StrCat(NumberIn(stats, stats.min()), " .. ",
                                         NumberIn(stats, stats.quantiles().Quantile(0.5)), " .. ",
                                         NumberIn(stats, stats.max()));
  if (IsTime(stats.style())) return range;
  return absl::StrCat(range, ", mean ", NumberIn(stats, stats.mean()), ", deviation ",
                      ShortNumber(stats.deviation()));
}

std::string InsteadOf(LooseColumn::Kept kept, int64_t min_count, int64_t error) {
  if (kept == LooseColumn::kAll) return "every value has an id";
  if (kept == LooseColumn::kCounted) {
    return absl::StrCat("values seen more than ", error, " times have an id, and some others");
  }
  return absl::StrCat("values seen ", min_count + error, " times have an id, of those seen from ",
                      min_count, " times on some");
}

// Columns of numbers that are not plain ones, and of what may be some.
std::string StylesText(const ProposalNotes& notes) {
  std::string out;
  for (const MarkedColumn& marked : notes.marked) {
    std::vector<std::string> texts;
    for (const auto& [text, count] : marked.texts) {
      texts.push_back(absl::StrCat("'", OneLine(text), "' (", count, ")"));
    }
    absl::StrAppend(&out, Printable(marked.column),
                    ": numbers, of which there is none where it is ", absl::StrJoin(texts, " or "),
                    " (missing)\n");
  }
  for (const StyledColumn& styled : notes.styled) {
    const bool is_time = IsTime(styled.style);
    if (!styled.is_sure) {
      absl::StrAppend(
          &out, "warning: ", Printable(styled.column), ": a comma, as in '", OneLine(styled.text),
          "', parts thousands (read: amount); where it is a decimal one, write decimal: "
          "comma instead\n");
      continue;
    }
    absl::StrAppend(&out, Printable(styled.column), is_time ? ": times, as '" : ": amounts, as '",
                    OneLine(styled.text), "' (read: ", is_time ? "time" : "amount",
                    styled.style == NumberStyle::kMonthFirst ? ", date: month_first)\n"
                    : styled.style == NumberStyle::kDayFirst ? ", date: day_first)\n"
                                                             : ")\n");
  }
  for (const UnreadDates& dates : notes.dates) {
    absl::StrAppend(
        &out, "warning: ", Printable(dates.column), ": dates, as '", OneLine(dates.text),
        "', are read as names, since the day or the month may come first: say read: time "
        "and date: day_first or month_first\n");
  }
  for (const WeightColumn& weights : notes.weights) {
    const bool is_plain = weights.is_read && weights.is_summed;
    absl::StrAppend(&out, is_plain ? "" : "warning: ", Printable(weights.column),
                    weights.is_read ? ": values with weights, as '" : ": values, as '",
                    OneLine(weights.text),
                    is_plain ? "' (weight_separator: \":\", combiner: sum)\n"
                    : weights.is_read
                        ? "' (weight_separator: \":\", combiner: mean), weigh more than 100 in a "
                          "row, so that only their ratios count; with smaller ones their size does "
                          "too\n"
                        : "', are names as they are; where the number is a weight, say "
                          "weight_separator: \":\" in features.yaml\n");
  }
  for (const CommaColumn& commas : notes.commas) {
    if (commas.is_decimal) {
      absl::StrAppend(&out, Printable(commas.column), ": numbers with a decimal comma, as '",
                      OneLine(commas.text), "' (decimal: comma)\n");
      continue;
    }
    absl::StrAppend(
        &out, "warning: ", Printable(commas.column), ": numbers with a comma, as '",
        OneLine(commas.text),
        "', are read as names, since they may be pairs; write them with a point, or say "
        "decimal: comma in features.yaml\n");
  }
  return out;
}

void AddStyles(const ProposalNotes& notes, nlohmann::ordered_json* out) {
  nlohmann::ordered_json& json = *out;
  json["missing_among_numbers"] = nlohmann::ordered_json::array();
  for (const MarkedColumn& marked : notes.marked) {
    json["missing_among_numbers"].push_back({{"column", Printable(marked.column)}});
    for (const auto& [text, count] : marked.texts) {
      json["missing_among_numbers"].back()["texts"][text] = count;
    }
  }
  json["with_comma"] = nlohmann::ordered_json::array();
  for (const CommaColumn& commas : notes.commas) {
    json["with_comma"].push_back({{"column", Printable(commas.column)},
                                  {"text", Printable(commas.text)},
                                  {"read_as", commas.is_decimal ? "numbers" : "names"}});
  }
  json["styled"] = nlohmann::ordered_json::array();
  for (const StyledColumn& styled : notes.styled) {
    json["styled"].push_back({{"column", Printable(styled.column)},
                              {"text", Printable(styled.text)},
                              {"read", IsTime(styled.style) ? "time" : "amount"}});
  }
  json["weights"] = nlohmann::ordered_json::array();
  for (const WeightColumn& weights : notes.weights) {
    json["weights"].push_back({{"column", Printable(weights.column)},
                               {"text", Printable(weights.text)},
                               {"read_as", weights.is_read ? "weights" : "names"}});
  }
  json["dates_unread"] = nlohmann::ordered_json::array();
  for (const UnreadDates& dates : notes.dates) {
    json["dates_unread"].push_back(
        {{"column", Printable(dates.column)}, {"text", Printable(dates.text)}});
  }
}

}  // namespace

std::string KindOf(const ColumnStats& stats) {
  if (stats.present() == 0) return "empty";
  if (!stats.is_number()) return "text";
  if (IsTime(stats.style())) return "time";
  return stats.integers() == stats.numbers() ? "integer" : "number";
}

std::string ShortNumber(double value, int digits) { return absl::StrFormat("%.*g", digits, value); }

int DigitsFor(const ColumnStats& stats) {
  const double size = std::max(std::abs(stats.min()), std::abs(stats.max()));
  const double range = stats.max() - stats.min();
  if (!(range > 0) || !std::isfinite(range)) return 6;
  return static_cast<int>(std::clamp(std::ceil(std::log10(size / range)) + 3, 6.0, 17.0));
}

std::string NumberIn(const ColumnStats& stats, double value) {
  if (IsTime(stats.style())) return TimeText(value);
  return ShortNumber(value, DigitsFor(stats));
}

std::string AnalysisTable(const Analysis& analysis) {
  size_t width = 6;
  for (const std::string& column : analysis.columns) {
    width = std::max(width, std::min<size_t>(24, WidthOf(column)));
  }
  const int name_width = static_cast<int>(width);
  std::string out =
      absl::StrFormat("%-*s  %-7s %8s %10s  %s\n", name_width, "column", "kind", "missing",
                      "distinct", "least .. median .. most, or top values");
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    const bool is_exact = stats.common().error() == 0;
    const std::string name = Beginning(Printable(analysis.columns[i]), width);
    absl::StrAppendFormat(&out, "%s%s  %-7s %7.1f%% %1s%9s  %s\n", name,
                          std::string(width - WidthOf(name), ' '), KindOf(stats),
                          100 * Share(stats.missing(), stats.cells()), is_exact ? "" : "~",
                          ShortCount(static_cast<double>(stats.distinct())), Spread(stats));
  }
  absl::StrAppendFormat(&out, "%d rows", analysis.rows);
  if (analysis.bad_rows > 0) {
    absl::StrAppendFormat(&out, "; %d more cannot be read, the first: %s", analysis.bad_rows,
                          analysis.first_bad);
  }
  return out + "\n";
}

nlohmann::ordered_json AnalysisJson(const Analysis& analysis) {
  nlohmann::ordered_json json = {{"rows", analysis.rows},
                                 {"bad_rows", analysis.bad_rows},
                                 {"columns", nlohmann::ordered_json::array()}};
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    nlohmann::ordered_json column = {{"name", Printable(analysis.columns[i])},
                                     {"kind", KindOf(stats)},
                                     {"missing", stats.missing()},
                                     {"missing_rate", Share(stats.missing(), stats.cells())},
                                     {"distinct", stats.distinct()},
                                     {"distinct_is_exact", stats.common().error() == 0}};
    if (IsTime(stats.style())) {
      column["min"] = TimeText(stats.min());
      column["max"] = TimeText(stats.max());
    } else if (stats.is_number()) {
      column["min"] = stats.min();
      column["max"] = stats.max();
      column["mean"] = stats.mean();
      column["deviation"] = stats.deviation();
      for (const double q : {0.01, 0.05, 0.25, 0.5, 0.75, 0.95, 0.99}) {
        column["quantiles"][absl::StrCat(q)] = stats.quantiles().Quantile(q);
      }
    }
    column["top"] = nlohmann::ordered_json::array();
    for (const CommonTexts::Item& item : stats.common().Items()) {
      if (column["top"].size() == kTopInJson) break;
      const std::string value(ColumnStats::BeginningOf(item.text));
      column["top"].push_back({{"value", Printable(value)}, {"count", item.count}});
    }
    column["top_error"] = stats.common().error();
    json["columns"].push_back(std::move(column));
  }
  return json;
}

std::string ProposalText(const ProposalNotes& notes) {
  std::string out;
  for (const LooseColumn::Kept kept :
       {LooseColumn::kFrequent, LooseColumn::kCounted, LooseColumn::kAll}) {
    std::vector<std::string> columns;
    int64_t error = 0;
    for (const LooseColumn& loose : notes.loose) {
      if (loose.kept != kept) continue;
      columns.push_back(Printable(loose.column));
      error = std::max(error, loose.error);
    }
    if (columns.empty()) continue;
    absl::StrAppend(&out, "min-count ", notes.min_count, " is not kept exactly by ",
                    absl::StrJoin(columns, ", "), ": more than ", ColumnStats::kCommonTexts,
                    " different values; ", InsteadOf(kept, notes.min_count, error), "\n");
  }
  for (const StrangeColumn& strange : notes.strange) {
    std::vector<std::string> texts;
    for (const std::string& text : strange.texts) texts.push_back(OneLine(Beginning(text, 40)));
    absl::StrAppend(&out, Printable(strange.column), ": of its numbers ", strange.count,
                    strange.count == 1 ? " is none and counts" : " are none and count",
                    " as missing (malformed: missing): '", absl::StrJoin(texts, "', '"),
                    static_cast<int64_t>(texts.size()) < strange.count ? "', ...\n" : "'\n");
  }
  for (const GarbledColumn& garbled : notes.garbled) {
    absl::StrAppend(&out, Printable(garbled.column), ": is not all UTF-8, as '",
                    OneLine(garbled.text), "'; ",
                    garbled.is_hashed ? "every value has an id by its hash"
                                      : "such values are taken for rare ones",
                    "; iconv -f latin1 -t utf8 or the like makes words of them\n");
  }
  for (const LostName& lost : notes.lost) {
    absl::StrAppend(&out, "warning: ", Printable(lost.column), ": '", OneLine(lost.text), "', in ",
                    lost.count,
                    " rows, counts as missing, as it does in columns of numbers; if it is a name "
                    "here, take it out of `missing` and say malformed: missing of those columns\n");
  }
  absl::StrAppend(&out, StylesText(notes));
  for (const UnscaledColumn& unscaled : notes.unscaled) {
    absl::StrAppend(&out, "warning: ", Printable(unscaled.column), ": entry ",
                    OneLine(unscaled.entry), " has values up to ", ShortNumber(unscaled.value),
                    ", and trains badly beside others near 1: divide the values of each such entry "
                    "by the largest (svm-scale does), or give the data as a table, whose numbers "
                    "are scaled by init\n");
  }
  const auto printable = [](std::string* text, const std::string& column) {
    absl::StrAppend(text, Printable(column));
  };
  if (!notes.quantities.empty()) {
    absl::StrAppend(&out, "integers taken for quantities only: ",
                    absl::StrJoin(notes.quantities, ", ", printable),
                    "; one that names things wants a name like item_id, or transform: hash\n");
  }
  if (!notes.numbered.empty()) {
    absl::StrAppend(&out, "integers taken for ids, since each column's begin where another's end: ",
                    absl::StrJoin(notes.numbered, ", ", printable),
                    "; one that is a quantity wants transform: normalize\n");
  }
  if (notes.unused.empty()) return out;
  const auto format = [](std::string* text, const UnusedColumn& unused) {
    absl::StrAppend(text, Printable(unused.column), " (", unused.why, ")");
  };
  absl::StrAppend(&out, "left out: ", absl::StrJoin(notes.unused, ", ", format), "\n");
  return out;
}

nlohmann::ordered_json ProposalJson(const FeaturesSpec& features, const ProposalNotes& notes) {
  nlohmann::ordered_json json = {{"label", Printable(features.label)},
                                 {"positive", nlohmann::ordered_json::array()},
                                 {"negative", nlohmann::ordered_json::array()},
                                 {"features", features.features.size()},
                                 {"min_count", notes.min_count},
                                 {"min_count_not_kept", nlohmann::ordered_json::array()},
                                 {"left_out", nlohmann::ordered_json::array()},
                                 {"not_numbers", nlohmann::ordered_json::array()},
                                 {"not_utf8", nlohmann::ordered_json::array()},
                                 {"not_scaled", nlohmann::ordered_json::array()},
                                 {"quantities", nlohmann::ordered_json::array()}};
  json["taken_for_missing"] = nlohmann::ordered_json::array();
  for (const LostName& lost : notes.lost) {
    json["taken_for_missing"].push_back({{"column", Printable(lost.column)},
                                         {"text", Printable(lost.text)},
                                         {"count", lost.count}});
  }
  for (const std::string& column : notes.quantities) {
    json["quantities"].push_back(Printable(column));
  }
  json["numbered_through"] = nlohmann::ordered_json::array();
  for (const std::string& column : notes.numbered) {
    json["numbered_through"].push_back(Printable(column));
  }
  AddStyles(notes, &json);
  for (const UnscaledColumn& unscaled : notes.unscaled) {
    json["not_scaled"].push_back({{"column", Printable(unscaled.column)},
                                  {"entry", Printable(unscaled.entry)},
                                  {"value", unscaled.value}});
  }
  for (const StrangeColumn& strange : notes.strange) {
    nlohmann::ordered_json texts = nlohmann::ordered_json::array();
    for (const std::string& text : strange.texts) texts.push_back(Printable(text));
    json["not_numbers"].push_back(
        {{"column", Printable(strange.column)}, {"count", strange.count}, {"texts", texts}});
  }
  for (const GarbledColumn& garbled : notes.garbled) {
    json["not_utf8"].push_back({{"column", Printable(garbled.column)},
                                {"text", Printable(garbled.text)},
                                {"hashed", garbled.is_hashed}});
  }
  for (const UnusedColumn& unused : notes.unused) {
    json["left_out"].push_back({{"column", Printable(unused.column)}, {"why", unused.why}});
  }
  if (features.at_least.has_value()) {
    json["at_least"] = *features.at_least;
  } else if (features.positive.empty()) {  // A number, which is 0 or 1.
    json["positive"].push_back("1");
    json["negative"].push_back("0");
  }
  for (const std::string& text : features.positive) json["positive"].push_back(Printable(text));
  for (const std::string& text : features.negative) json["negative"].push_back(Printable(text));
  for (const LooseColumn& loose : notes.loose) {
    json["min_count_not_kept"].push_back(
        {{"column", Printable(loose.column)},
         {"error", loose.error},
         {"instead", InsteadOf(loose.kept, notes.min_count, loose.error)}});
  }
  return json;
}

Histogram HistogramOf(const ColumnStats& stats) {
  constexpr size_t kBars = 24;
  Histogram histogram;
  if (!stats.is_number()) {
    for (const CommonTexts::Item& item : stats.common().Items()) {
      if (histogram.bars.size() == kBars) break;
      const std::string text(ColumnStats::BeginningOf(item.text));
      histogram.bars.push_back({Printable(text), item.count});
    }
    return histogram;
  }
  const double low = stats.quantiles().Quantile(0.01), high = stats.quantiles().Quantile(0.99);
  const double step = high > low ? (high - low) / kBars : 1;
  for (size_t i = 0; i < kBars; ++i) {
    histogram.bars.push_back({NumberIn(stats, low + step * static_cast<double>(i))});
  }
  for (const QuantileSketch::Bin& bin : stats.quantiles().Bins()) {
    const double at = std::clamp((bin.value - low) / step, 0.0, static_cast<double>(kBars - 1));
    histogram.bars[static_cast<size_t>(at)].count += bin.count;
  }
  return histogram;
}

}  // namespace rubato
