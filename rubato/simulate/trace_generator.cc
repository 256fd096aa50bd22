#include "rubato/simulate/trace_generator.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr double kDay = 86400;
constexpr double kPi = 3.14159265358979323846;
constexpr double kRunTimeMin = 60;
constexpr double kRunTimeMax = 14 * kDay;
constexpr double kSweepGap = 90;       // Mean seconds between two jobs of a sweep.
constexpr double kMorning = kDay / 3;  // A trace starts on Monday at eight.

// How many GPUs people ask for.
struct SizeShare {
  int gpus;
  double share;
};
constexpr SizeShare kSizes[] = {{1, 0.70},  {2, 0.10},   {4, 0.09},  {8, 0.08},
                                {16, 0.02}, {32, 0.007}, {64, 0.003}};

// What the jobs of a sweep have in common.
struct Kind {
  size_t model = 0;
  size_t type = 0;
  int gpus = 1;
};

class Generator {
 public:
  Generator(const TraceGeneratorOptions& options, const std::vector<BuiltinModel>& models,
            const CurveBook& book)
      : options_(options), models_(models), book_(book), rng_(options.seed) {}

  Trace Draw() {
    DrawJobs();
    DrawTimes();
    for (TraceJob& job : trace_.jobs) SetDeadline(job);
    std::stable_sort(trace_.jobs.begin(), trace_.jobs.end(),
                     [](const TraceJob& a, const TraceJob& b) { return a.submit_s < b.submit_s; });
    for (size_t i = 0; i < trace_.jobs.size(); ++i) trace_.jobs[i].name = absl::StrCat(i);
    trace_.name = "generated";
    return std::move(trace_);
  }

 private:
  void DrawJobs() {
    trace_.jobs.reserve(static_cast<size_t>(options_.jobs));
    while (static_cast<int64_t>(trace_.jobs.size()) < options_.jobs) {
      // A sweep counts for sweep_mean jobs, so it must begin that much less often.
      const double begin = options_.sweep_share / options_.sweep_mean;
      const bool sweep = rng_.Chance(begin / (begin + 1 - options_.sweep_share));
      int64_t size = 1;
      while (sweep && rng_.Chance(1 - 1 / options_.sweep_mean)) ++size;
      const Kind kind = DrawKind();
      sweeps_.push_back(trace_.jobs.size());
      for (; size > 0 && static_cast<int64_t>(trace_.jobs.size()) < options_.jobs; --size) {
        trace_.jobs.push_back(DrawJob(kind));
        if (options_.progress && trace_.jobs.size() % 4096 == 0) {
          options_.progress(static_cast<int64_t>(trace_.jobs.size()));
        }
      }
    }
    sweeps_.push_back(trace_.jobs.size());
  }

  Kind DrawKind() {
    Kind kind;
    kind.model = rng_.Below(models_.size());
    kind.type = rng_.Below(options_.gpu_types.size());
    double left = rng_.Uniform();
    for (const SizeShare& size : kSizes) {
      if (size.gpus > options_.gpus || CurveOf(kind).Rate(size.gpus) <= 0) break;
      kind.gpus = size.gpus;
      if ((left -= size.share) < 0) break;
    }
    return kind;
  }

  TraceJob DrawJob(const Kind& kind) {
    TraceJob job;
    job.model = models_[kind.model].model;
    job.batch_size = models_[kind.model].batch_size;
    job.asked_gpus = kind.gpus;
    // Wide jobs are the serious ones: half as long again for every fourfold of GPUs.
    const double median = options_.run_time_median_s * std::pow(kind.gpus, 0.3);
    job.duration_s = std::round(std::clamp(
        median * std::exp(options_.run_time_spread * rng_.Normal()), kRunTimeMin, kRunTimeMax));
    job.iterations = std::max(1.0, std::round(job.duration_s * CurveOf(kind).Rate(job.asked_gpus)));
    job.priority = rng_.Chance(options_.high_priority_share) ? 1 : 0;
    return job;
  }

  // Given how many there are, the arrivals of a Poisson process of varying density are drawn
  // one by one, each from that density. So the load comes out as asked.
  void DrawTimes() {
    double gpu_seconds = 0;
    for (const TraceJob& job : trace_.jobs) gpu_seconds += job.duration_s * job.asked_gpus;
    const double length_s = gpu_seconds / (options_.gpus * options_.load);
    for (size_t s = 0; s + 1 < sweeps_.size(); ++s) {
      double at_s = 0;
      do {
        at_s = rng_.Uniform(0, length_s);
      } while (!rng_.Chance(ArrivalDensity(options_, kMorning + at_s)));
      for (size_t i = sweeps_[s]; i < sweeps_[s + 1]; ++i) {
        trace_.jobs[i].submit_s = std::round(at_s);
        at_s += rng_.Exponential(kSweepGap);
      }
    }
  }

  void SetDeadline(TraceJob& job) {
    if (rng_.Chance(options_.best_effort_share)) return;
    const double lambda = rng_.Uniform(options_.lambda_low, options_.lambda_high);
    job.deadline_s = std::max(job.submit_s + 1, std::round(job.submit_s + lambda * job.duration_s));
    job.deadline = rng_.Chance(options_.soft_share) ? DeadlineKind::kSoft : DeadlineKind::kHard;
  }

  const Curve& CurveOf(const Kind& kind) const {
    const BuiltinModel& model = models_[kind.model];
    return *book_.Find(model.model, model.batch_size, options_.gpu_types[kind.type]);
  }

  const TraceGeneratorOptions& options_;
  const std::vector<BuiltinModel>& models_;
  const CurveBook& book_;
  Rng rng_;
  Trace trace_;
  std::vector<size_t> sweeps_;  // Where each begins among the jobs, and the end of the last.
};

absl::Status OutOfRange(absl::string_view name, double value, absl::string_view range) {
  return absl::InvalidArgumentError(absl::StrCat(name, " is ", value, "; it must be ", range));
}

}  // namespace

absl::Status TraceGeneratorOptions::Validate() const {
  if (jobs < 1 || jobs > 100'000'000) {
    return OutOfRange("--jobs", static_cast<double>(jobs), "1 to 100,000,000");
  }
  if (gpus < 1 || gpus > (1 << 20)) return OutOfRange("--gpus", gpus, "1 to 1048576");
  if (!(load > 0 && load <= 1000)) return OutOfRange("--load", load, "above 0, to 1000");
  if (!(lambda_low > 0 && lambda_low <= 1e6)) {
    return OutOfRange("--lambda-low", lambda_low, "above 0, to a million");
  }
  if (!(lambda_high >= lambda_low && lambda_high <= 1e6)) {
    return OutOfRange("--lambda-high", lambda_high,
                      absl::StrCat("at least ", lambda_low, ", to a million"));
  }
  struct Share {
    const char* name;
    double value;
  };
  for (const Share& s : {Share{"--best-effort", best_effort_share}, Share{"--soft", soft_share},
                         Share{"--high-priority", high_priority_share},
                         Share{"--sweeps", sweep_share}, Share{"--day-swing", day_swing}}) {
    if (!(s.value >= 0 && s.value <= 1)) return OutOfRange(s.name, s.value, "0 to 1");
  }
  if (!(sweep_mean >= 1)) return OutOfRange("sweep mean", sweep_mean, "at least 1");
  if (!(weekend > 0 && weekend <= 1)) return OutOfRange("weekend", weekend, "above 0, to 1");
  if (!(run_time_median_s > 0 && run_time_median_s <= 1e9)) {
    return OutOfRange("--run-time", run_time_median_s, "above 0, to 1e9 s");
  }
  if (!(run_time_spread >= 0 && run_time_spread <= 10))
    return OutOfRange("run time spread", run_time_spread, "0 to 10");
  if (gpu_types.empty()) return absl::InvalidArgumentError("there is no GPU type to draw from");
  return absl::OkStatus();
}

double ArrivalDensity(const TraceGeneratorOptions& options, double at_s) {
  // Highest at three in the afternoon, lowest at three in the morning.
  const double day = std::cos(2 * kPi * (at_s / kDay - 15.0 / 24));
  const double hour = (1 + options.day_swing * day) / (1 + options.day_swing);
  const int weekday = static_cast<int>(std::fmod(at_s / kDay, 7));
  return weekday >= 5 ? hour * options.weekend : hour;
}

absl::StatusOr<Trace> GenerateTrace(const TraceGeneratorOptions& options,
                                    const std::vector<BuiltinModel>& models,
                                    const CurveBook& book) {
  RUBATO_RETURN_IF_ERROR(options.Validate());
  if (models.empty()) return absl::InvalidArgumentError("there is no model to draw from");
  for (const std::string& type : options.gpu_types) {
    for (const BuiltinModel& model : models) {
      const Curve* curve = book.Find(model.model, model.batch_size, type);
      if (curve != nullptr && curve->Legal(1)) continue;
      return absl::InvalidArgumentError(
          absl::StrFormat("no profile of %s with batch size %d on one GPU of type \"%s\"; there "
                          "are %s",
                          model.model, model.batch_size, type, book.Known(type)));
    }
  }
  return Generator(options, models, book).Draw();
}

}  // namespace rubato
