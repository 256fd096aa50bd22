// The terminal's plot of who held what.
#include <algorithm>
#include <cmath>
#include <map>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/simulate/scenario.h"

namespace rubato {
namespace {

const std::vector<std::string>& Shades() {
  static const auto* shades = new std::vector<std::string>{"█", "▒", "▓", "░"};
  return *shades;
}

// Mean units held by each group in each column of time.
std::vector<std::vector<double>> HeldByColumn(const Workload& workload,
                                              const SimulationResult& result,
                                              const std::map<std::string, size_t>& groups,
                                              const PlotOptions& options) {
  std::vector<std::vector<double>> held(
      groups.size(), std::vector<double>(static_cast<size_t>(options.columns), 0.0));
  const double per = options.end_s / options.columns;
  for (const Piece& piece : result.pieces) {
    const TraceJob& job = workload.trace.jobs[static_cast<size_t>(piece.job.value())];
    const size_t group = groups.at(options.group_by_model ? job.model : job.name);
    for (int x = std::max(0, static_cast<int>(piece.from_s / per));
         x < options.columns && x * per < piece.to_s; ++x) {
      const double overlap = std::min(piece.to_s, (x + 1) * per) - std::max(piece.from_s, x * per);
      held[group][static_cast<size_t>(x)] += std::max(0.0, overlap) / per * piece.gpus;
    }
  }
  return held;
}

}  // namespace

std::string PlotUtilisation(const Workload& workload, const SimulationResult& result,
                            const PlotOptions& options) {
  std::map<std::string, size_t> groups;
  for (const TraceJob& job : workload.trace.jobs) {
    groups.emplace(options.group_by_model ? job.model : job.name, 0);
  }
  size_t next = 0;
  for (auto& [name, index] : groups) index = next++;
  const auto held = HeldByColumn(workload, result, groups, options);
  const double top = workload.cluster.gpus();
  std::string plot;
  for (int row = options.rows; row >= 1; --row) {
    const double level = top * (row - 0.5) / options.rows;
    absl::StrAppendFormat(&plot, "%6s |",
                          row % 5 == 0 ? absl::StrCat(top * row / options.rows) : "");
    for (size_t x = 0; x < static_cast<size_t>(options.columns); ++x) {
      double sum = 0;
      size_t group = 0;
      while (group < held.size() && (sum += held[group][x]) + 1e-6 < level) ++group;
      plot += group < held.size() ? Shades()[group % Shades().size()] : " ";
    }
    plot += "\n";
  }
  absl::StrAppend(&plot, "     0 +", std::string(static_cast<size_t>(options.columns), '-'), "\n");
  const std::string end = absl::StrFormat("%.0f s", options.end_s);
  absl::StrAppendFormat(&plot, "        0 s%*s\n", options.columns - 3, end);
  plot += "        ";
  for (const auto& [name, index] : groups) {
    absl::StrAppend(&plot, Shades()[index % Shades().size()], " ", name, "   ");
  }
  return plot + "\n";
}

}  // namespace rubato
