#include "rubato/simulate/trace.h"

#include <algorithm>
#include <optional>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/status.h"
#include "rubato/cluster/csv.h"

namespace rubato {
namespace {

constexpr int64_t kGpusMax = 1 << 20;
// Beyond these a number is a mistake, and sums of seconds would lose their fractions.
constexpr double kSecondsMax = 1e10;  // Three hundred years; Unix times are a fifth of it.
constexpr double kIterationsMax = 1e15;

struct Columns {
  size_t name, submit, iterations, model, batch, gpus;
  std::optional<size_t> deadline, duration, best_effort, soft, priority, floor, max, cpus, memory;
};

absl::StatusOr<Columns> FindColumns(const CsvTable& table) {
  Columns c{};
  RUBATO_ASSIGN_OR_RETURN(c.name, table.Require({"job_id"}));
  for (const auto& same :
       {std::initializer_list<absl::string_view>{"submit_time", "submission_time"},
        {"iteration", "num_iteration"},
        {"ddl", "deadline"}}) {
    RUBATO_RETURN_IF_ERROR(table.AtMostOne(same));
  }
  RUBATO_ASSIGN_OR_RETURN(c.submit, table.Require({"submit_time", "submission_time"}));
  RUBATO_ASSIGN_OR_RETURN(c.iterations, table.Require({"iteration", "num_iteration"}));
  RUBATO_ASSIGN_OR_RETURN(c.model, table.Require({"model_name"}));
  RUBATO_ASSIGN_OR_RETURN(c.batch, table.Require({"batch_size"}));
  RUBATO_ASSIGN_OR_RETURN(c.gpus, table.Require({"num_gpu"}));
  c.deadline = table.Find({"ddl", "deadline"});
  c.duration = table.Find({"duration"});
  c.best_effort = table.Find({"best_effort"});
  c.soft = table.Find({"soft"});
  c.priority = table.Find({"priority"});
  c.floor = table.Find({"min_gpu"});
  c.max = table.Find({"max_gpu"});
  c.cpus = table.Find({"cpu_per_gpu"});
  c.memory = table.Find({"mem_per_gpu"});
  return c;
}

bool IsNothing(absl::string_view cell) {
  double value = 0;
  return IsEmptyCell(cell) || (absl::SimpleAtod(cell, &value) && value == 0);
}

// A number from 0 to `max`. What is far beyond is not repeated: it may be hundreds of digits.
absl::StatusOr<double> Within(const CsvTable& table, const CsvTable::Row& row, size_t column,
                              double max) {
  RUBATO_ASSIGN_OR_RETURN(const double value, table.Number(row, column));
  if (value >= 0 && value <= max) return value;
  return table.Error(
      row, absl::StrFormat("%s is %g; it must be from 0 to %g", table.header[column], value, max));
}

// The same, or 0 if there is no column or the cell is empty.
absl::StatusOr<double> WithinOrZero(const CsvTable& table, const CsvTable::Row& row,
                                    std::optional<size_t> column, double max) {
  if (!column || IsEmptyCell(row.cells[*column])) return 0;
  return Within(table, row, *column, max);
}

// An optional whole number; `absent` if there is no column or the cell is empty.
absl::StatusOr<int> Optional(const CsvTable& table, const CsvTable::Row& row,
                             std::optional<size_t> column, int low, int high, int absent) {
  if (!column || IsEmptyCell(row.cells[*column])) return absent;
  RUBATO_ASSIGN_OR_RETURN(const int64_t value, table.Whole(row, *column, low, high));
  return static_cast<int>(value);
}

absl::Status ReadDeadline(const CsvTable& table, const CsvTable::Row& row, const Columns& c,
                          TraceJob& job) {
  RUBATO_ASSIGN_OR_RETURN(const int best_effort, Optional(table, row, c.best_effort, 0, 1, 0));
  RUBATO_ASSIGN_OR_RETURN(const int soft, Optional(table, row, c.soft, 0, 1, 0));
  if (best_effort == 1 || !c.deadline || IsNothing(row.cells[*c.deadline])) {
    return absl::OkStatus();
  }
  RUBATO_ASSIGN_OR_RETURN(job.deadline_s, Within(table, row, *c.deadline, kSecondsMax));
  if (job.deadline_s < job.submit_s) {
    return table.Error(row, absl::StrFormat("the deadline, %s, lies before the submission, %s",
                                            row.cells[*c.deadline], row.cells[c.submit]));
  }
  job.deadline = soft == 1 ? DeadlineKind::kSoft : DeadlineKind::kHard;
  return absl::OkStatus();
}

absl::StatusOr<TraceJob> ReadJob(const CsvTable& table, const CsvTable::Row& row,
                                 const Columns& c) {
  TraceJob job;
  job.line = row.line;
  job.name = std::string(row.cells[c.name]);
  if (job.name.empty()) return table.Error(row, "job_id is empty");
  RUBATO_ASSIGN_OR_RETURN(job.submit_s, Within(table, row, c.submit, kSecondsMax));
  RUBATO_ASSIGN_OR_RETURN(job.iterations, Within(table, row, c.iterations, kIterationsMax));
  if (job.iterations == 0) {
    return table.Error(row, "iterations are 0; a job needs at least a part of one");
  }
  job.model = std::string(row.cells[c.model]);
  RUBATO_ASSIGN_OR_RETURN(job.batch_size, table.Whole(row, c.batch, 1, INT32_MAX));
  RUBATO_ASSIGN_OR_RETURN(job.asked_gpus, table.Whole(row, c.gpus, 1, kGpusMax));
  RUBATO_ASSIGN_OR_RETURN(job.duration_s, WithinOrZero(table, row, c.duration, kSecondsMax));
  RUBATO_ASSIGN_OR_RETURN(job.cpus_per_gpu, WithinOrZero(table, row, c.cpus, kGpusMax));
  RUBATO_ASSIGN_OR_RETURN(job.memory_gb_per_gpu, WithinOrZero(table, row, c.memory, kGpusMax));
  RUBATO_ASSIGN_OR_RETURN(job.priority, Optional(table, row, c.priority, -1000, 1000, 0));
  RUBATO_ASSIGN_OR_RETURN(job.floor_gpus, Optional(table, row, c.floor, 0, kGpusMax, 0));
  RUBATO_ASSIGN_OR_RETURN(job.max_gpus, Optional(table, row, c.max, 0, kGpusMax, 0));
  if (job.max_gpus > 0 && job.max_gpus < job.floor_gpus) {
    return table.Error(row, "max_gpu is below min_gpu");
  }
  RUBATO_RETURN_IF_ERROR(ReadDeadline(table, row, c, job));
  return job;
}

}  // namespace

absl::StatusOr<Trace> ParseTrace(absl::string_view text, absl::string_view name) {
  RUBATO_ASSIGN_OR_RETURN(const CsvTable table, ParseCsv(text, name));
  RUBATO_ASSIGN_OR_RETURN(const Columns columns, FindColumns(table));
  Trace trace;
  trace.name = std::string(name);
  trace.jobs.reserve(table.rows.size());
  absl::flat_hash_set<absl::string_view> seen;
  for (const CsvTable::Row& row : table.rows) {
    RUBATO_ASSIGN_OR_RETURN(TraceJob job, ReadJob(table, row, columns));
    if (!seen.insert(row.cells[columns.name]).second) {
      return table.Error(row, absl::StrCat("job_id ", job.name, " appears twice"));
    }
    trace.jobs.push_back(std::move(job));
  }
  if (trace.jobs.empty()) {
    return absl::InvalidArgumentError(absl::StrCat(name, ": the trace has no jobs"));
  }
  std::stable_sort(trace.jobs.begin(), trace.jobs.end(),
                   [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
  return trace;
}

std::string FormatTrace(const Trace& trace) {
  const bool needs = std::any_of(trace.jobs.begin(), trace.jobs.end(), [](const TraceJob& job) {
    return job.floor_gpus > 0 || job.max_gpus > 0 || job.cpus_per_gpu > 0 ||
           job.memory_gb_per_gpu > 0;
  });
  std::string text = absl::StrCat(
      "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration,best_effort,soft,",
      "priority", needs ? ",min_gpu,max_gpu,cpu_per_gpu,mem_per_gpu\n" : "\n");
  for (const TraceJob& job : trace.jobs) {
    const bool none = job.deadline == DeadlineKind::kNone;
    absl::StrAppendFormat(&text, "%s,%.10g,%.10g,%s,%s,%d,%d,%.10g,%d,%d,%d", CsvField(job.name),
                          job.submit_s, job.iterations, CsvField(job.model),
                          none ? "" : absl::StrFormat("%.10g", job.deadline_s), job.batch_size,
                          job.asked_gpus, job.duration_s, none ? 1 : 0,
                          job.deadline == DeadlineKind::kSoft ? 1 : 0, job.priority);
    if (needs) {
      absl::StrAppendFormat(&text, ",%d,%d,%.10g,%.10g", job.floor_gpus, job.max_gpus,
                            job.cpus_per_gpu, job.memory_gb_per_gpu);
    }
    text += "\n";
  }
  return text;
}

}  // namespace rubato
