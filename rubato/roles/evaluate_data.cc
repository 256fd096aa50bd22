// EvaluateData() of score_data.h.
#include <algorithm>
#include <optional>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"
#include "rubato/metrics/evaluation.h"
#include "rubato/roles/score_data.h"
#include "rubato/tasks/task.h"
#include "rubato/worker/evaluation.h"
#include "rubato/worker/task_reader.h"

namespace rubato {
namespace {

constexpr int64_t kBatchRecords = 1024;  // The model's full speed.
constexpr int64_t kPartRecords = 16 * kBatchRecords;

// What a part of the data came to.
struct Part {
  EvaluationSums sums;
  int64_t records = 0;
  int64_t bad_rows = 0;
  std::string first_bad;
};

// Records [begin, end) through one model.
absl::StatusOr<Part> EvaluatePart(const DataSpec& spec, RecordSource& source,
                                  const RecordParser& parser, const GroupColumn& group,
                                  Scorer& scorer, int64_t begin, int64_t end) {
  Trainer& trainer = *scorer.trainer;
  const int64_t width = trainer.score_width();
  TaskReader reader(source, parser,
                    {.batch_size = kBatchRecords,
                     .shuffle_buffer = 0,
                     .skip_bad_rows = spec.bad_rows == "skip",
                     .score_width = width});
  reader.Start({.kind = TaskKind::kEvaluate, .begin = begin, .end = end, .committed = begin});
  Evaluation evaluation(width, group);
  Part part = {.records = end - begin};
  BatchKey key;
  Batch batch;
  while (true) {
    RUBATO_ASSIGN_OR_RETURN(const bool more, reader.Next(&key, &batch));
    if (!more) break;
    part.bad_rows += reader.skipped().count;
    if (part.first_bad.empty() && !reader.skipped().named.empty()) {
      part.first_bad = reader.skipped().named.front();
    }
    if (batch.rows == 0) continue;
    RUBATO_ASSIGN_OR_RETURN(const absl::Span<const float> scores, scorer.model->Predict(batch));
    evaluation.Add(batch, scores, trainer.Metrics(batch, scores));
  }
  part.sums = evaluation.sums();
  return part;
}

// Parts on their way: taken in order by whoever is free, and added up in order.
class Parts {
 public:
  explicit Parts(int64_t records) : records_(records) {}

  // The next part's first record; nothing if there is none, or if the work has failed.
  std::optional<int64_t> Take() {
    MutexLock lock(mu_);
    if (!status_.ok() || next_ >= records_) return std::nullopt;
    return std::exchange(next_, next_ + kPartRecords);
  }

  void Give(int64_t begin, absl::StatusOr<Part> part) {
    MutexLock lock(mu_);
    if (part.ok()) {
      done_ += part->records;
      waiting_.emplace(begin, *std::move(part));
      while (!waiting_.empty() && waiting_.begin()->first == added_) {
        const Part& first = waiting_.begin()->second;
        sums_.Add(first.sums);
        bad_rows_ += first.bad_rows;
        if (first_bad_.empty()) first_bad_ = first.first_bad;
        added_ += first.records;
        waiting_.erase(waiting_.begin());
      }
    } else if (status_.ok()) {
      status_ = part.status();
    }
    changed_.NotifyAll();
  }

  void Fail(const absl::Status& status) { Give(0, status); }

  // Waits for the next part to be done, or the first failure; returns the records done.
  absl::StatusOr<int64_t> WaitBeyond(int64_t done) {
    MutexLock lock(mu_);
    while (done_ <= done && done_ < records_ && status_.ok()) changed_.Wait(mu_);
    if (!status_.ok()) return status_;
    return done_;
  }

  // Once all threads have ended.
  Part Total() {
    MutexLock lock(mu_);
    return {.sums = sums_, .records = added_, .bad_rows = bad_rows_, .first_bad = first_bad_};
  }

 private:
  const int64_t records_;
  Mutex mu_;
  CondVar changed_;
  int64_t next_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t done_ ABSL_GUARDED_BY(mu_) = 0;
  int64_t added_ ABSL_GUARDED_BY(mu_) = 0;
  std::map<int64_t, Part> waiting_ ABSL_GUARDED_BY(mu_);  // By first record.
  EvaluationSums sums_ ABSL_GUARDED_BY(mu_);
  int64_t bad_rows_ ABSL_GUARDED_BY(mu_) = 0;
  std::string first_bad_ ABSL_GUARDED_BY(mu_);
  absl::Status status_ ABSL_GUARDED_BY(mu_);
};

// Shows what is done until all is, and tells the workers if it shall not be.
absl::Status Follow(Parts& parts, int64_t records, const ShowProgress& show) {
  int64_t done = 0;
  while (done < records) {
    RUBATO_ASSIGN_OR_RETURN(done, parts.WaitBeyond(done));
    const absl::Status status = show(done, records);
    if (status.ok()) continue;
    parts.Fail(status);
    return status;
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<EvaluatedData> EvaluateData(Servable& servable, const ScoredData& data, int workers,
                                           const ShowProgress& show) {
  const int64_t parts_in_all = (data.records() + kPartRecords - 1) / kPartRecords;
  workers = static_cast<int>(std::clamp<int64_t>(workers, 1, std::max<int64_t>(1, parts_in_all)));
  RUBATO_ASSIGN_OR_RETURN(const GroupColumn group,
                          FindGroup(data.parser().shape(), servable.job.evaluate.group));
  // Models are made before any thread starts: that is where libtorch is set up.
  std::vector<Scorer> scorers;
  std::vector<std::unique_ptr<RecordSource>> sources;
  for (int i = 0; i < workers; ++i) {
    RUBATO_ASSIGN_OR_RETURN(scorers.emplace_back(), MakeScorer(servable));
    RUBATO_ASSIGN_OR_RETURN(sources.emplace_back(), data.OpenSource());
  }
  Parts parts(data.records());
  std::vector<std::thread> threads;
  for (size_t i = 0; i < scorers.size(); ++i) {
    threads.emplace_back([&, i] {
      while (const std::optional<int64_t> begin = parts.Take()) {
        const int64_t end = std::min(*begin + kPartRecords, data.records());
        parts.Give(*begin, EvaluatePart(servable.job.data, *sources[i], data.parser(), group,
                                        scorers[i], *begin, end));
      }
    });
  }
  const absl::Status status = Follow(parts, data.records(), show);
  for (std::thread& thread : threads) thread.join();
  RUBATO_RETURN_IF_ERROR(status);
  const Part total = parts.Total();
  if (total.bad_rows > servable.job.data.bad_rows_max) {
    return absl::InvalidArgumentError(absl::StrCat(
        total.bad_rows, " rows could not be read, more than data.bad_rows_max of the job, ",
        servable.job.data.bad_rows_max, "; the first: ", total.first_bad,
        "; mend them, or leave them out of --data"));
  }
  if (total.bad_rows > 0 && total.bad_rows == data.records()) {
    return absl::InvalidArgumentError(absl::StrCat(
        "none of the ", total.bad_rows, " rows could be read; the first: ", total.first_bad));
  }
  return EvaluatedData{.records = data.records() - total.bad_rows,
                       .bad_rows = total.bad_rows,
                       .metrics = Metrics(total.sums)};
}

}  // namespace rubato
