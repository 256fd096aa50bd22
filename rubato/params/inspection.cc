#include "rubato/params/inspection.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/prometheus.h"
#include "rubato/net/frame.h"

namespace rubato {
namespace {

// Every number, in the order of the bytes.
template <typename Table, typename Visit>
void VisitTable(Table& table, Visit visit) {
  visit(table.dim), visit(table.rows), visit(table.counted), visit(table.bytes);
  visit(table.admitted), visit(table.refused), visit(table.evicted);
}
template <typename Table, typename Visit>
void VisitRules(Table& table, Visit visit) {
  visit(table.learning_rate), visit(table.admit_count), visit(table.admit_probability);
  visit(table.ttl_steps), visit(table.capacity);
}
template <typename Server, typename Visit>
void VisitServer(Server& s, Visit visit) {
  visit(s.server), visit(s.dense), visit(s.bytes), visit(s.partitions), visit(s.steps);
  visit(s.view), visit(s.pulls), visit(s.rows_pulled), visit(s.pushes), visit(s.rows_pushed);
  visit(s.duplicates), visit(s.fenced), visit(s.not_finite), visit(s.stale_pushes);
  visit(s.staleness_sum), visit(s.staleness_max), visit(s.clients), visit(s.log_bytes);
  visit(s.checkpoint), visit(s.checkpoint_hold_us), visit(s.follower), visit(s.log_uncopied);
  visit(s.refused_stale), visit(s.uncounted);
}

}  // namespace

std::string EncodeInspection(const ServerInspection& inspection) {
  std::string body;
  ByteWriter writer(body);
  writer.Put<uint16_t>(kProtocolVersion);
  const auto put = [&](int64_t value) { writer.Put<int64_t>(value); };
  VisitServer(inspection, put);
  writer.Put<double>(inspection.seconds);
  writer.Put<uint32_t>(static_cast<uint32_t>(inspection.tables.size()));
  for (const TableInspection& table : inspection.tables) {
    writer.PutString(table.name);
    writer.PutString(table.optimizer);
    VisitTable(table, put);
  }
  writer.Put<uint32_t>(static_cast<uint32_t>(inspection.hottest.size()));
  for (const HotId& hot : inspection.hottest) {
    writer.Put<uint32_t>(hot.table);
    writer.Put<uint64_t>(hot.id);
    writer.Put<int64_t>(hot.count);
  }
  writer.Put<int64_t>(inspection.checkpoint_wait_us);
  for (const TableInspection& table : inspection.tables) {
    VisitRules(table, [&](auto value) { writer.Put(value); });
  }
  return body;
}

absl::StatusOr<ServerInspection> DecodeInspection(absl::string_view body) {
  ByteReader reader(body);
  if (const auto version = reader.Get<uint16_t>(); version != kProtocolVersion) {
    return absl::InvalidArgumentError(
        absl::StrCat("the server speaks protocol ", version, ", this command ", kProtocolVersion));
  }
  ServerInspection inspection;
  const auto get = [&](int64_t& value) { value = reader.Get<int64_t>(); };
  VisitServer(inspection, get);
  inspection.seconds = reader.Get<double>();
  for (auto n = reader.Get<uint32_t>(); n > 0 && reader.ok(); --n) {
    TableInspection& table = inspection.tables.emplace_back();
    table.name = std::string(reader.GetString());
    table.optimizer = std::string(reader.GetString());
    VisitTable(table, get);
  }
  for (auto n = reader.Get<uint32_t>(); n > 0 && reader.ok(); --n) {
    HotId& hot = inspection.hottest.emplace_back();
    hot.table = reader.Get<uint32_t>();
    hot.id = reader.Get<uint64_t>();
    hot.count = reader.Get<int64_t>();
  }
  // Earlier builds end here, or after the next.
  if (reader.remaining() > 0) inspection.checkpoint_wait_us = reader.Get<int64_t>();
  const bool has_rules = reader.remaining() > 0;
  for (auto table = inspection.tables.begin(); has_rules && table != inspection.tables.end();) {
    VisitRules(*table++, [&](auto& value) {
      value = reader.Get<std::remove_reference_t<decltype(value)>>();
    });
  }
  if (!reader.ok() || reader.remaining() > 0) {
    return absl::InvalidArgumentError("the server's answer makes no sense");
  }
  return inspection;
}

std::string PrometheusText(const ServerInspection& s, absl::string_view job) {
  std::string text;
  const std::string who =
      absl::StrCat("job=\"", PrometheusLabel(job), "\",server=\"", s.server, "\"");
  const auto about = [&](absl::string_view name, absl::string_view type, absl::string_view help) {
    absl::StrAppend(&text, "# HELP rubato_params_", name, " ", help, "\n# TYPE rubato_params_",
                    name, " ", type, "\n");
  };
  const auto one = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                       auto value) {
    about(name, type, help);
    absl::StrAppend(&text, "rubato_params_", name, "{", who, "} ", value, "\n");
  };
  const auto each = [&](absl::string_view name, absl::string_view type, absl::string_view help,
                        int64_t TableInspection::*value) {
    about(name, type, help);
    for (const TableInspection& table : s.tables) {
      absl::StrAppend(&text, "rubato_params_", name, "{", who, ",table=\"",
                      PrometheusLabel(table.name), "\"} ", table.*value, "\n");
    }
  };
  each("rows", "gauge", "Rows of a table.", &TableInspection::rows);
  each("counted_ids", "gauge", "Ids without a row yet.", &TableInspection::counted);
  each("table_bytes", "gauge", "Memory of a table.", &TableInspection::bytes);
  each("rows_admitted_total", "counter", "Rows made.", &TableInspection::admitted);
  each("rows_refused_total", "counter", "Gradients of ids without a row.",
       &TableInspection::refused);
  each("rows_evicted_total", "counter", "Rows dropped.", &TableInspection::evicted);
  one("bytes", "gauge", "Tables and dense weights in memory.", s.bytes);
  one("dense_weights", "gauge", "Dense weights held.", s.dense);
  one("partitions", "gauge", "Partitions held.", s.partitions);
  one("pulls_total", "counter", "Pulls answered.", s.pulls);
  one("rows_pulled_total", "counter", "Rows read.", s.rows_pulled);
  one("pushes_total", "counter", "Pushes applied.", s.pushes);
  one("rows_pushed_total", "counter", "Gradients of rows received.", s.rows_pushed);
  one("duplicates_total", "counter", "Pushes applied before.", s.duplicates);
  one("fenced_total", "counter", "Pushes refused for their view.", s.fenced);
  one("not_finite_total", "counter", "Batches refused for a NaN or an infinity.", s.not_finite);
  one("stale_total", "counter", "Pushes refused as too far behind, and computed again.",
      s.refused_stale);
  about("staleness_steps", "summary", "Steps between a push's pull and its arrival.");
  absl::StrAppend(&text, "rubato_params_staleness_steps_sum{", who, "} ", s.staleness_sum, "\n");
  absl::StrAppend(&text, "rubato_params_staleness_steps_count{", who, "} ", s.stale_pushes, "\n");
  one("staleness_steps_max", "gauge", "The most of those.", s.staleness_max);
  one("clients", "gauge", "Connections open.", s.clients);
  one("log_bytes", "gauge", "Push log on disk.", s.log_bytes);
  one("log_uncopied_bytes", "gauge", "Push log that the follower lacks.", s.log_uncopied);
  one("checkpoint_version", "gauge", "The newest checkpoint on disk.", s.checkpoint);
  one("checkpoint_hold_seconds_max", "gauge",
      "The most CPU time for which writing a checkpoint kept pushes waiting.",
      static_cast<double>(s.checkpoint_hold_us) * 1e-6);
  one("checkpoint_wait_seconds_max", "gauge", "The same by the clock, a slow disk and all.",
      static_cast<double>(s.checkpoint_wait_us) * 1e-6);
  one("uptime_seconds", "gauge", "Since the process started.", s.seconds);
  return text;
}

}  // namespace rubato
