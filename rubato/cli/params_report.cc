#include "rubato/cli/params_report.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "rubato/job/job_spec.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

using Json = nlohmann::ordered_json;

// A server's own numbers a second, since the look before; 0 if it was started in between.
struct Rates {
  double pulls = 0, rows_pulled = 0, pushes = 0, rows_pushed = 0;
};
Rates RatesOf(const ParamsReport& report, const ServerInspection& now) {
  for (const ServerInspection& then : report.before) {
    const double seconds = now.seconds - then.seconds;
    if (then.server != now.server || seconds <= 0) continue;
    const auto rate = [&](int64_t ServerInspection::*count) {
      return static_cast<double>(now.*count - then.*count) / seconds;
    };
    return {rate(&ServerInspection::pulls), rate(&ServerInspection::rows_pulled),
            rate(&ServerInspection::pushes), rate(&ServerInspection::rows_pushed)};
  }
  return {};
}

double Ratio(int64_t a, int64_t b) {
  return b == 0 ? 0 : static_cast<double>(a) / static_cast<double>(b);
}

// By table, all servers together.
std::vector<TableInspection> Tables(const ParamsReport& report) {
  std::vector<TableInspection> tables;
  for (const ServerInspection& server : report.servers) {
    if (tables.size() < server.tables.size()) tables.resize(server.tables.size());
    for (size_t t = 0; t < server.tables.size(); ++t) {
      const TableInspection& part = server.tables[t];
      TableInspection& sum = tables[t];
      sum.name = part.name, sum.dim = part.dim, sum.optimizer = part.optimizer;
      sum.learning_rate = part.learning_rate, sum.admit_count = part.admit_count;
      sum.admit_probability = part.admit_probability, sum.ttl_steps = part.ttl_steps;
      sum.capacity = part.capacity;
      sum.rows += part.rows, sum.counted += part.counted, sum.bytes += part.bytes;
      sum.admitted += part.admitted, sum.refused += part.refused, sum.evicted += part.evicted;
    }
  }
  return tables;
}

// Which ids have rows, by the keys of the job file that say otherwise than "all, for ever".
std::string RulesOf(const TableInspection& table) {
  if (table.admit_count < 0) return "?";  // It did not say.
  const RowsSpec all;
  std::vector<std::string> rules;
  const auto rule = [&](absl::string_view key, auto value, auto usual) {
    if (value != usual) rules.push_back(absl::StrCat(key, " ", value));
  };
  rule("admit_count", table.admit_count, all.admit_count);
  rule("admit_probability", table.admit_probability, all.admit_probability);
  rule("ttl_steps", table.ttl_steps, all.ttl_steps);
  rule("capacity", table.capacity, all.capacity);
  return rules.empty() ? "-" : absl::StrJoin(rules, ", ");
}

Json TableJson(const TableInspection& table, bool known) {
  const auto counts = [&](int64_t count) { return known ? Json(count) : Json(); };
  const auto told = [&](auto value) { return table.admit_count < 0 ? Json() : Json(value); };
  return {{"name", table.name},
          {"dim", table.dim},
          {"optimizer", table.optimizer},
          {"learning_rate", told(table.learning_rate)},
          {"admit_count", told(table.admit_count)},
          {"admit_probability", told(table.admit_probability)},
          {"ttl_steps", told(table.ttl_steps)},
          {"capacity", told(table.capacity)},
          {"rows", table.rows},
          {"ids_waiting", table.counted},
          {"bytes", table.bytes},
          {"bytes_per_row", Ratio(table.bytes, table.rows)},
          {"rows_admitted", counts(table.admitted)},
          {"rows_refused", counts(table.refused)},
          {"rows_evicted", counts(table.evicted)}};
}

std::vector<HotId> Hottest(const ParamsReport& report, size_t top) {
  std::vector<std::vector<HotId>> counted;
  for (const ServerInspection& server : report.servers) counted.push_back(server.hottest);
  return HottestOf(counted, top);
}

int64_t RowsPulled(const ParamsReport& report) {
  int64_t rows = 0;
  for (const ServerInspection& server : report.servers) rows += server.rows_pulled;
  return rows;
}

std::string Megabytes(int64_t bytes) {
  return absl::StrFormat("%.1f", static_cast<double>(bytes) / 1e6);
}

// Columns as wide as they must be; numbers to the right, the first column to the left.
std::string Columns(const std::vector<std::vector<std::string>>& rows) {
  std::vector<size_t> width;
  for (const auto& row : rows) {
    width.resize(std::max(width.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) width[i] = std::max(width[i], row[i].size());
  }
  std::string text;
  for (const auto& row : rows) {
    for (size_t i = 0; i < row.size(); ++i) {
      const std::string space(width[i] - row[i].size(), ' ');
      absl::StrAppend(&text, i == 0 ? "" : "  ", i == 0 ? row[i] + space : space + row[i]);
    }
    absl::StrAppend(&text, "\n");
  }
  return text;
}

}  // namespace

bool ParamsReport::counts_known() const {
  return !left && std::all_of(servers.begin(), servers.end(),
                              [](const ServerInspection& server) { return server.uncounted == 0; });
}

bool ParamsReport::partial() const {
  int64_t partitions = 0;
  for (const ServerInspection& s : servers) partitions += s.partitions;
  return !silent.empty() && partitions < kPartitions;
}

Json ParamsJson(const ParamsReport& report, size_t top) {
  Json json = {
      {"job", report.job}, {"live", report.checkpoint == 0}, {"partial", report.partial()}};
  json["silent"] = Json::array();
  for (const SilentServer& s : report.silent) {
    json["silent"].push_back({{"server", s.server}, {"why", s.why}});
  }
  if (report.checkpoint != 0) json["checkpoint"] = report.checkpoint;
  const std::vector<TableInspection> tables = Tables(report);
  json["tables"] = Json::array();
  for (const TableInspection& table : tables) {
    json["tables"].push_back(TableJson(table, report.counts_known()));
  }
  json["servers"] = Json::array();
  for (const ServerInspection& s : report.servers) {
    const Rates rates = RatesOf(report, s);
    int64_t rows = 0;
    for (const TableInspection& table : s.tables) rows += table.rows;
    json["servers"].push_back(
        {{"server", s.server},
         {"partitions", s.partitions},
         {"rows", rows},
         {"dense", s.dense},
         {"bytes", s.bytes},
         {"steps", s.steps},
         {"pulls_s", rates.pulls},
         {"rows_pulled_s", rates.rows_pulled},
         {"pushes_s", rates.pushes},
         {"rows_pushed_s", rates.rows_pushed},
         {"staleness_mean", Ratio(s.staleness_sum, s.stale_pushes)},
         {"staleness_max", s.staleness_max},
         {"stale", s.refused_stale},
         {"duplicates", s.duplicates},
         {"fenced", s.fenced},
         {"not_finite", s.not_finite},
         {"clients", s.clients},
         {"log_bytes", s.log_bytes},
         {"follower", s.follower},
         {"log_uncopied_bytes", s.log_uncopied},
         {"checkpoint", s.checkpoint},
         {"checkpoint_hold_ms", 1e-3 * static_cast<double>(s.checkpoint_hold_us)},
         {"checkpoint_wait_ms", 1e-3 * static_cast<double>(s.checkpoint_wait_us)},
         {"uptime_s", s.seconds}});
  }
  json["hottest"] = Json::array();
  for (const HotId& hot : Hottest(report, top)) {
    json["hottest"].push_back({{"table", hot.table < tables.size() ? tables[hot.table].name : ""},
                               {"id", hot.id},
                               {"pulled", hot.count},
                               {"share", Ratio(hot.count, RowsPulled(report))}});
  }
  return json;
}

std::string ParamsTable(const ParamsReport& report, size_t top) {
  const std::vector<TableInspection> tables = Tables(report);
  std::vector<std::vector<std::string>> rows = {{"table", "dim", "optimizer", "rows", "waiting",
                                                 "MB", "bytes/row", "admitted", "refused",
                                                 "evicted", "rate", "rules"}};
  const bool known = report.counts_known();
  const auto counts = [&](int64_t count) { return known ? absl::StrCat(count) : "-"; };
  for (const TableInspection& t : tables) {
    rows.push_back({t.name, absl::StrCat(t.dim), t.optimizer, absl::StrCat(t.rows),
                    absl::StrCat(t.counted), Megabytes(t.bytes),
                    absl::StrFormat("%.1f", Ratio(t.bytes, t.rows)), counts(t.admitted),
                    counts(t.refused), counts(t.evicted),
                    t.learning_rate < 0 ? "?" : absl::StrCat(t.learning_rate), RulesOf(t)});
  }
  std::string text = report.checkpoint == 0
                         ? absl::StrCat(report.job, ": running\n\n")
                         : absl::StrCat(report.job, ": checkpoint ", report.checkpoint, "\n\n");
  for (const SilentServer& s : report.silent) {
    absl::StrAppend(&text, "server ", s.server, ": ", s.why, "\n");
  }
  if (report.partial()) absl::StrAppend(&text, "partial: all sums are without what they hold\n");
  if (!report.silent.empty()) absl::StrAppend(&text, "\n");
  absl::StrAppend(&text, Columns(rows), "\n");

  rows = {{"server", "partitions", "rows", "dense", "MB", "steps"}};
  const bool live = report.checkpoint == 0;
  if (live) {
    for (const char* name : {"pulls/s", "rows/s", "pushes/s", "rows/s", "staleness", "max", "stale",
                             "clients", "log MB", "follower"}) {
      rows[0].push_back(name);
    }
  }
  for (const ServerInspection& s : report.servers) {
    int64_t held = 0;
    for (const TableInspection& table : s.tables) held += table.rows;
    std::vector<std::string>& row = rows.emplace_back();
    row = {absl::StrCat(s.server), absl::StrCat(s.partitions), absl::StrCat(held),
           absl::StrCat(s.dense),  Megabytes(s.bytes),         absl::StrCat(s.steps)};
    if (!live) continue;
    const Rates rates = RatesOf(report, s);
    for (const double rate : {rates.pulls, rates.rows_pulled, rates.pushes, rates.rows_pushed}) {
      row.push_back(absl::StrFormat("%.0f", rate));
    }
    row.push_back(absl::StrFormat("%.2f", Ratio(s.staleness_sum, s.stale_pushes)));
    row.push_back(absl::StrCat(s.staleness_max));
    row.push_back(absl::StrCat(s.refused_stale));
    row.push_back(absl::StrCat(s.clients));
    row.push_back(Megabytes(s.log_bytes));
    row.push_back(s.follower < 0 ? "-" : absl::StrCat(s.follower));
  }
  absl::StrAppend(&text, Columns(rows));
  const std::vector<HotId> hottest = Hottest(report, top);
  if (hottest.empty()) return text;
  rows = {{"hottest ids", "table", "of rows pulled"}};
  for (const HotId& hot : hottest) {
    const double share = 100 * Ratio(hot.count, RowsPulled(report));
    rows.push_back({absl::StrCat(hot.id), hot.table < tables.size() ? tables[hot.table].name : "",
                    absl::StrFormat("%.2f %%", share)});
  }
  absl::StrAppend(&text, "\n", Columns(rows));
  return text;
}

}  // namespace rubato
