#include "rubato/simulate/report.h"

#include <cmath>
#include <cstring>
#include <map>
#include <vector>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "rubato/simulate/report_pieces.h"
#include "rubato/simulate/report_template.h"

namespace rubato {
namespace {

// A JSON string that is safe inside <script>: no "<" can end it.
std::string Quoted(absl::string_view text) {
  std::string out = "\"";
  for (char c : text) {
    const auto code = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\') {
      out += {'\\', c};
    } else if (code < 0x20 || c == '<') {
      absl::StrAppendFormat(&out, "\\u%04x", code);
    } else {
      out.push_back(c);
    }
  }
  return out + "\"";
}

// JSON has no infinity; null stands for "never".
std::string Number(double value) {
  return std::isfinite(value) ? absl::StrFormat("%.12g", value) : "null";
}

// Little-endian, as every browser's typed arrays are in practice.
template <typename T>
std::string Base64(const std::vector<T>& values) {
  const absl::string_view bytes(reinterpret_cast<const char*>(values.data()),
                                values.size() * sizeof(T));
  return absl::StrCat("\"", absl::Base64Escape(bytes), "\"");
}

std::string JobsJson(const Trace& trace) {
  std::vector<double> submit, deadline, iterations;
  std::vector<uint32_t> model_of, asked, batch;
  std::vector<uint8_t> kind;
  std::map<std::string, uint32_t> models;
  for (const TraceJob& job : trace.jobs) models.emplace(job.model, 0);
  std::string model_names, names;
  uint32_t next = 0;
  for (auto& [model, index] : models) {
    index = next++;
    absl::StrAppend(&model_names, index == 0 ? "" : ",", Quoted(model));
  }
  for (const TraceJob& job : trace.jobs) {
    absl::StrAppend(&names, names.empty() ? "" : ",", Quoted(job.name));
    submit.push_back(job.submit_s);
    deadline.push_back(job.deadline_s);
    iterations.push_back(job.iterations);
    model_of.push_back(models.at(job.model));
    asked.push_back(static_cast<uint32_t>(job.asked_gpus));
    batch.push_back(static_cast<uint32_t>(job.batch_size));
    kind.push_back(static_cast<uint8_t>(job.deadline));
  }
  return absl::StrCat("{\"count\":", trace.jobs.size(), ",\"names\":[", names, "],\"models\":[",
                      model_names, "],\"submit\":", Base64(submit),
                      ",\"deadline\":", Base64(deadline), ",\"iterations\":", Base64(iterations),
                      ",\"model\":", Base64(model_of), ",\"asked\":", Base64(asked),
                      ",\"batch\":", Base64(batch), ",\"kind\":", Base64(kind), "}");
}

std::string MetricsJson(const SimulationResult& r) {
  std::string json = "{";
  const auto add = [&](absl::string_view name, double value) {
    absl::StrAppend(&json, json.size() > 1 ? "," : "", Quoted(name), ":", Number(value));
  };
  add("jobs", r.jobs);
  add("deadline_jobs", r.deadline_jobs);
  add("admitted", r.admitted);
  add("refused", r.refused);
  add("completed", r.completed);
  add("met", r.met);
  add("late_admitted", r.late_admitted);
  add("late_soft", r.late_soft);
  add("deadline_ratio", r.deadline_ratio);
  add("jct_mean", r.jct_s.mean);
  add("jct_p50", r.jct_s.p50);
  add("jct_p95", r.jct_s.p95);
  add("best_effort_jct_mean", r.best_effort_jct_s.mean);
  add("best_effort_jct_p95", r.best_effort_jct_s.p95);
  add("makespan", r.makespan_s);
  add("gpu_hours_used", r.gpu_hours_used);
  add("gpu_hours_offered", r.gpu_hours_offered);
  add("utilisation", r.utilisation);
  add("migrations", static_cast<double>(r.migrations));
  add("rescales", static_cast<double>(r.rescales));
  add("rescale_seconds", r.rescale_seconds);
  add("failures", static_cast<double>(r.failures));
  add("decisions", static_cast<double>(r.decisions));
  add("active_jobs_mean", r.mean_active_jobs);
  add("active_jobs_max", r.max_active_jobs);
  add("decision_us_p50", r.decision_us.p50);
  add("decision_us_p99", r.decision_us.p99);
  add("decision_us_max", r.decision_us.max);
  add("wall_seconds", r.wall_seconds);
  return json + "}";
}

std::string PolicyJson(const Workload& workload, const SimulationResult& r, double origin_s,
                       size_t pieces_max, bool pools) {
  std::vector<double> end;
  std::vector<uint8_t> admitted;
  std::vector<uint32_t> resizes;
  std::string refusals;
  for (const JobResult& job : r.job_results) {
    end.push_back(job.end_s);
    admitted.push_back(job.admitted ? 1 : 0);
    resizes.push_back(static_cast<uint32_t>(job.resizes));
    if (job.refusal.empty()) continue;
    const TraceJob& asked = workload.trace.jobs[static_cast<size_t>(job.id.value())];
    absl::StrAppend(&refusals, refusals.empty() ? "" : ",", "[", job.id.value(), ",",
                    Quoted(job.refusal), ",", Number(job.offer_deadline_s), ",",
                    Number(job.offer_iterations / asked.iterations), "]");
  }
  const PackedPieces packed = PackPieces(r, origin_s, pieces_max, pools);
  return absl::StrCat(
      "{\"name\":", Quoted(r.policy), ",\"metrics\":", MetricsJson(r), ",\"end\":", Base64(end),
      ",\"admitted\":", Base64(admitted), ",\"resizes\":", Base64(resizes), ",\"refusals\":[",
      refusals, "],\"pieces\":{\"count\":", packed.count, ",\"tick\":", Number(packed.tick_s),
      ",\"gpu_scale\":", packed.gpu_scale, ",\"width\":", Number(packed.width_s),
      ",\"pools\":", pools ? 1 : 0, ",\"stream\":\"", absl::Base64Escape(packed.bytes), "\"}}");
}

std::string DataJson(const Workload& workload, absl::Span<const SimulationResult> results,
                     const ReportOptions& options) {
  const double origin_s = workload.trace.jobs.front().submit_s;
  const bool pools = workload.cluster.pools.size() > 1;
  std::string pools_json, policies;
  for (const Pool& pool : workload.cluster.pools) {
    absl::StrAppend(&pools_json, pools_json.empty() ? "" : ",", "{\"type\":", Quoted(pool.gpu_type),
                    ",\"gpus\":", pool.gpus, "}");
  }
  for (const SimulationResult& result : results) {
    absl::StrAppend(&policies, policies.empty() ? "" : ",\n",
                    PolicyJson(workload, result, origin_s, options.pieces_max, pools));
  }
  return absl::StrCat(
      "{\"version\":1,\"title\":", Quoted(options.title),
      ",\"subtitle\":", Quoted(options.subtitle), ",\"unit\":", Quoted(options.unit),
      ",\"group_by_model\":", options.group_by_model ? "true" : "false",
      ",\"compare\":", options.compare ? "true" : "false", ",\"origin\":", Number(origin_s),
      ",\"gpus\":", workload.cluster.gpus(), ",\"nodes\":", workload.cluster.nodes.size(),
      ",\"pools\":[", pools_json, "],\n\"jobs\":", JobsJson(workload.trace), ",\n\"policies\":[",
      policies, "]}");
}

}  // namespace

std::string FormatReport(const Workload& workload, absl::Span<const SimulationResult> results,
                         const ReportOptions& options) {
  const absl::string_view page = kReportTemplate;
  constexpr absl::string_view kData = "/*DATA*/";
  const size_t at = page.find(kData);
  return absl::StrCat(page.substr(0, at), DataJson(workload, results, options),
                      page.substr(at + kData.size()));
}

}  // namespace rubato
