// Throughput profiles as files: rates by count, and by how far the GPUs reach.
#include <map>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/cluster/csv.h"
#include "rubato/cluster/curve.h"
#include "rubato/cluster/throughput_model.h"

namespace rubato {
namespace {

constexpr int kCountMax = 1 << 16;  // GPUs; a curve is an array by count.
constexpr int kUsualNode = 8;       // GPUs on the nodes of a profile that does not tell.

struct Cell {
  int gpus = 0;
  std::optional<double> rate;  // None: it runs, but was never measured.
};

// One batch size: a row at the tightest placement, and others by span.
struct Profiled {
  const CsvTable::Row* row = nullptr;  // Of the first, for messages.
  std::map<Span, std::vector<Cell>> by_span;
};

constexpr Span kTightest = Span::kGpu;

std::optional<Span> ParseSpan(absl::string_view text) {
  if (IsEmptyCell(text)) return kTightest;
  if (text == "socket") return Span::kSocket;
  if (text == "node") return Span::kNode;
  if (text == "rack") return Span::kRack;
  if (text == "cluster") return Span::kCluster;
  return std::nullopt;
}

// The most GPUs that a placement within one node was measured with.
int NodeOf(const Profiled& profiled) {
  int most = 0;
  for (const auto& [span, cells] : profiled.by_span) {
    if (span != Span::kSocket && span != Span::kNode) continue;
    for (const Cell& cell : cells) most = std::max(most, cell.gpus);
  }
  return most > 0 ? most : kUsualNode;
}

// What was not measured follows from what was: unmeasured counts at their lower error bar, since
// deadlines will be promised on them, and unmeasured counts of a span as the model expects.
absl::StatusOr<Curve> MakeCurve(const CsvTable& table, const Profiled& profiled) {
  const auto tightest = profiled.by_span.find(kTightest);
  if (tightest == profiled.by_span.end()) {
    return table.Error(*profiled.row, "this batch size has no row without a span");
  }
  const int node = NodeOf(profiled);
  const auto tight_span = [&](int gpus) {
    return gpus == 1 ? Span::kGpu : gpus <= node ? Span::kNode : Span::kRack;
  };
  ThroughputModel model;
  for (const auto& [span, cells] : profiled.by_span) {
    for (const Cell& cell : cells) {
      if (cell.rate) model.Observe(cell.gpus, std::max(span, tight_span(cell.gpus)), *cell.rate);
    }
  }
  std::vector<CurvePoint> points;
  for (const Cell& cell : tightest->second) {
    const double estimate = model.Predict(cell.gpus, tight_span(cell.gpus)).low;
    points.push_back({cell.gpus, cell.rate.value_or(estimate)});
  }
  Curve curve(std::move(points));
  if (curve.empty())
    return table.Error(*profiled.row, "no GPU count at which this batch size runs");
  for (const auto& [span, cells] : profiled.by_span) {
    if (span == kTightest) continue;
    for (const CurvePoint& point : curve.points()) {
      if (point.gpus > 1 && span >= Span::kRack) {
        curve.Limit(point.gpus, span, model.Predict(point.gpus, span).rate);
      }
    }
    for (const Cell& cell : cells) {
      if (cell.rate) curve.Limit(cell.gpus, span, *cell.rate);
    }
  }
  return curve;
}

}  // namespace

absl::Status CurveBook::AddCsv(absl::string_view text, absl::string_view name,
                               absl::string_view model, absl::string_view gpu_type) {
  RUBATO_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, name));
  RUBATO_ASSIGN_OR_RETURN(const size_t batch_column, table.Require({"global_batch_size"}));
  const auto span_column = table.Find({"span"});
  std::vector<std::pair<size_t, int>> counts;
  for (size_t i = 0; i < table.header.size(); ++i) {
    if (i == batch_column || (span_column && i == *span_column)) continue;
    int gpus = 0;
    if (!absl::SimpleAtoi(table.header[i], &gpus) || gpus < 1 || gpus > kCountMax) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, ":1: column \"", table.header[i], "\" should be a number of GPUs"));
    }
    for (const auto& [column, other] : counts) {
      if (other != gpus) continue;
      return absl::InvalidArgumentError(absl::StrCat(name, ":1: columns \"", table.header[column],
                                                     "\" and \"", table.header[i],
                                                     "\" are the same number of GPUs"));
    }
    counts.push_back({i, gpus});
  }
  std::map<int, Profiled> batches;
  for (const CsvTable::Row& row : table.rows) {
    RUBATO_ASSIGN_OR_RETURN(const int64_t batch, table.Whole(row, batch_column, 1, INT32_MAX));
    const auto span = span_column ? ParseSpan(row.cells[*span_column]) : kTightest;
    if (!span) return table.Error(row, "span should be empty, socket, node, rack or cluster");
    Profiled& profiled = batches[static_cast<int>(batch)];
    if (profiled.row == nullptr) profiled.row = &row;
    const auto [at, is_new] = profiled.by_span.try_emplace(*span);
    if (!is_new) {
      return table.Error(row,
                         absl::StrCat("batch size ", batch, " appears twice, with the same span"));
    }
    std::vector<Cell>& cells = at->second;
    for (const auto& [column, gpus] : counts) {
      if (IsEmptyCell(row.cells[column])) continue;
      cells.push_back({gpus});
      if (row.cells[column] == "?") continue;
      RUBATO_ASSIGN_OR_RETURN(const double rate, table.Number(row, column));
      if (rate < 0) return table.Error(row, "a throughput below zero");
      cells.back().rate = rate;
    }
  }
  for (const auto& [batch, profiled] : batches) {
    RUBATO_ASSIGN_OR_RETURN(Curve curve, MakeCurve(table, profiled));
    Add(model, batch, gpu_type, std::move(curve));
  }
  return absl::OkStatus();
}

}  // namespace rubato
