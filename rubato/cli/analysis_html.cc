// The page of `rubato analyze --html`: no script, nothing from elsewhere.
#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "rubato/cli/analysis_report.h"

namespace rubato {
namespace {

constexpr char kHtmlOpening[] =
    "<!doctype html>\n<html lang=\"en\"><head><meta charset=\"utf-8\">\n"
    "<meta name=\"generator\" content=\"rubato analyze\">\n";

constexpr char kStyle[] = R"(
body { font: 15px/1.5 system-ui, sans-serif; margin: 2em auto; max-width: 60em; padding: 0 1em;
  color: #1c2430; background: #fdfdfc; }
section { border-top: 1px solid #d9dde3; padding: 1em 0; }
h1 { font-weight: 600; } h2 { font-size: 1.05em; margin: 0 0 .3em; }
p { margin: .2em 0; color: #4a5566; }
rect { fill: #3a6ea5; } rect:hover { fill: #d9822b; }
text { font-size: 11px; fill: #4a5566; }
@media (prefers-color-scheme: dark) { body { background: #14181f; color: #e4e8ee; }
  p, text { color: #a4afbf; fill: #a4afbf; } section { border-color: #2c3440; } }
)";

std::string Escaped(const std::string& text) {
  return absl::StrReplaceAll(text,
                             {{"&", "&amp;"}, {"<", "&lt;"}, {">", "&gt;"}, {"\"", "&quot;"}});
}

// Bars with their values as tooltips, the first and the last named below.
std::string Bars(const Histogram& histogram) {
  constexpr int kWidth = 30, kHeight = 90;
  int64_t most = 1;
  for (const Histogram::Bar& bar : histogram.bars) most = std::max(most, bar.count);
  const int width = kWidth * static_cast<int>(histogram.bars.size());
  std::string svg = absl::StrFormat("<svg viewBox=\"0 0 %d %d\" width=\"%d\" role=\"img\">\n",
                                    std::max(width, kWidth), kHeight + 20, std::min(width, 720));
  for (size_t i = 0; i < histogram.bars.size(); ++i) {
    const Histogram::Bar& bar = histogram.bars[i];
    const double height = kHeight * static_cast<double>(bar.count) / static_cast<double>(most);
    absl::StrAppendFormat(&svg,
                          "<rect x=\"%d\" y=\"%.1f\" width=\"%d\" height=\"%.1f\"><title>%s: %d"
                          "</title></rect>\n",
                          static_cast<int>(i) * kWidth, kHeight - height, kWidth - 2, height,
                          Escaped(bar.label), bar.count);
  }
  if (!histogram.bars.empty()) {
    absl::StrAppendFormat(&svg, "<text x=\"0\" y=\"%d\">%s</text>", kHeight + 14,
                          Escaped(histogram.bars.front().label.substr(0, 40)));
    absl::StrAppendFormat(
        &svg, "<text x=\"%d\" y=\"%d\" text-anchor=\"end\">%s</text>", width, kHeight + 14,
        histogram.bars.size() > 1 ? Escaped(histogram.bars.back().label.substr(0, 40)) : "");
  }
  return svg + "</svg>\n";
}

std::string Words(const ColumnStats& stats) {
  std::string words = absl::StrFormat(
      "%s, %.2f %% missing, %s%d distinct", KindOf(stats),
      stats.cells() == 0
          ? 0
          : 100 * static_cast<double>(stats.missing()) / static_cast<double>(stats.cells()),
      stats.common().error() == 0 ? "" : "about ", stats.distinct());
  if (!stats.is_number()) return words;
  const QuantileSketch& quantiles = stats.quantiles();
  const auto number = [&](double value) { return NumberIn(stats, value); };
  absl::StrAppend(&words, "; ", number(stats.min()), " to ", number(stats.max()), ", quartiles ",
                  number(quantiles.Quantile(0.25)), ", ", number(quantiles.Quantile(0.5)), ", ",
                  number(quantiles.Quantile(0.75)));
  if (IsTime(stats.style())) return words;
  return absl::StrCat(words, "; mean ", number(stats.mean()), ", deviation ",
                      ShortNumber(stats.deviation()));
}

}  // namespace

bool IsAnalysisHtml(absl::string_view text) { return absl::StartsWith(text, kHtmlOpening); }

std::string AnalysisHtml(const Analysis& analysis, const std::string& title) {
  std::string html =
      absl::StrCat(kHtmlOpening, "<title>", Escaped(title), "</title>\n<style>", kStyle,
                   "</style></head><body>\n<h1>", Escaped(title), "</h1>\n<p>", analysis.rows,
                   " rows, ", analysis.columns.size(), " columns</p>\n");
  for (size_t i = 0; i < analysis.columns.size(); ++i) {
    const ColumnStats& stats = analysis.stats[i];
    absl::StrAppend(&html, "<section><h2>", Escaped(analysis.columns[i]), "</h2>\n<p>",
                    Words(stats), "</p>\n", Bars(HistogramOf(stats)), "</section>\n");
  }
  return html + "</body></html>\n";
}

}  // namespace rubato
