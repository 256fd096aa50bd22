// What `rubato analyze` found, for people, for programs and for a browser.
#ifndef RUBATO_CLI_ANALYSIS_REPORT_H_
#define RUBATO_CLI_ANALYSIS_REPORT_H_

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/cli/cli.h"
#include "rubato/features/analysis.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// The pass itself, with a bar.
absl::StatusOr<Analysis> AnalyzeFiles(const DataSpec& data,
                                      const std::vector<std::string>& patterns, Console& console);

// A line a column: what it holds, how much is missing, how it is spread.
std::string AnalysisTable(const Analysis& analysis);
nlohmann::ordered_json AnalysisJson(const Analysis& analysis);
// Which columns could not keep to the count from which on a value gets an id, and what was done
// instead: a line for each sort, nothing if all could.
std::string ProposalText(const ProposalNotes& notes);
nlohmann::ordered_json ProposalJson(const FeaturesSpec& features, const ProposalNotes& notes);
// A page that stands alone: the same with a histogram of every column. `title` is any text.
std::string AnalysisHtml(const Analysis& analysis, const std::string& title);
// Whether a file's text is such a page.
bool IsAnalysisHtml(absl::string_view text);

// Equal steps between the 1st and the 99th percentile, what is outside counted at the ends; for
// texts the most common ones.
struct Histogram {
  struct Bar {
    std::string label;
    int64_t count = 0;
  };
  std::vector<Bar> bars;
};
Histogram HistogramOf(const ColumnStats& stats);

// "number", "integer", "time", "text" or "empty".
std::string KindOf(const ColumnStats& stats);
// Six digits at most: "38.5817", "1.23e+06"; or as many as given.
std::string ShortNumber(double value, int digits = 6);
// One of the column's numbers: as above with DigitsFor(), or as a time.
std::string NumberIn(const ColumnStats& stats, double value);
// As many as tell the numbers of a column apart, whose range may be small beside their size.
int DigitsFor(const ColumnStats& stats);

}  // namespace rubato

#endif  // RUBATO_CLI_ANALYSIS_REPORT_H_
