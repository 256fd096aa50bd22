#include "rubato/worker/replica.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr uint64_t kMagic = 0x33706572'62757221;  // "!rubrep3"
constexpr uint64_t kMagicBeforePlan = 0x32706572'62757221;
constexpr uint64_t kMagicBeforeLowered = 0x31706572'62757221;

absl::string_view BytesOf(const std::vector<float>& values) {
  return {reinterpret_cast<const char*>(values.data()), values.size() * sizeof(float)};
}

// Of the positions of a run, so that a count that is right by chance is found out: those of runs
// that together are a step add up to the step's, for the numbers of the places where two meet
// cancel, whoever took which and in how many pieces. Any position doubled, missing or of another
// epoch shows but for one time in 4096.
constexpr uint64_t kMarkMax = (1 << 12) - 1;
uint64_t MarkOf(const PlanRange& run) {
  const auto place = [&](int64_t position) {
    return Mix(static_cast<uint64_t>(run.task.epoch), static_cast<uint64_t>(position));
  };
  return (place(run.end) - place(run.begin)) & kMarkMax;
}

// What says which records lie before a place of the plan. How far the plan goes does not.
struct PlanNumber {
  const char* name;
  int64_t value;
};
std::vector<PlanNumber> NumbersOf(const TaskPlanOptions& plan) {
  return {{"records", plan.records},
          {"batch_size", plan.batch_size},
          {"batches_per_task", plan.batches_per_task},
          {"shuffle.tasks", plan.shuffle_tasks ? 1 : 0},
          {"seed", static_cast<int64_t>(plan.seed)},
          {"shuffle.spread", plan.spread ? 1 : 0}};
}

void Seal(std::string& bytes) { ByteWriter(bytes).Put<uint64_t>(Checksum(bytes)); }

}  // namespace

absl::StatusOr<Replica> Replica::Make(const Options& options, const TaskPlan& plan,
                                      absl::Span<const float> weights) {
  RUBATO_ASSIGN_OR_RETURN(Optimizer optimizer, Optimizer::Make(options.optimizer));
  Replica replica(options, plan, std::move(optimizer), weights.size());
  std::copy(weights.begin(), weights.end(), replica.row_.begin());
  replica.optimizer_.StartDense(weights, replica.OptimizerState());
  return replica;
}

Replica::Replica(const Options& options, const TaskPlan& plan, Optimizer optimizer, size_t dense)
    : options_(options),
      walk_(plan),
      optimizer_(std::move(optimizer)),
      dense_(dense),
      row_(dense + optimizer_.dense_state_floats(dense)),
      sum_(kFields + dense) {}

void Replica::BeginStep() { std::fill(sum_.begin(), sum_.end(), 0.0f); }

void Replica::Count(int64_t rows, const PlanRange& run, double loss) {
  sum_[kPositions] += static_cast<float>(run.size());
  const uint64_t marks = static_cast<uint64_t>(sum_[kMarks]) + MarkOf(run);
  sum_[kMarks] = static_cast<float>(marks & kMarkMax);
  sum_[kRows] += static_cast<float>(rows);
  if (rows > 0) sum_[kLoss] += static_cast<float>(loss * static_cast<double>(rows));
}

void Replica::Add(absl::Span<const float> gradient, int64_t rows, const PlanRange& run,
                  double loss) {
  Count(rows, run, loss);
  if (rows == 0) return;
  RUBATO_CHECK(gradient.size() == dense_);
  const float weight = static_cast<float>(rows);
  const absl::Span<float> into = Gradient();
  for (size_t i = 0; i < dense_; ++i) into[i] += weight * gradient[i];
}

void Replica::VoteResume(int64_t lowered) {
  Vote(kResume);
  sum_[kLowered] = static_cast<float>(lowered);
}

void Replica::Apply() {
  const bool trains = counters_.phase == Phase::kTraining && sum_[kFailed] == 0;
  overflowed_ = trains && sum_[kRows] > 0 && !AllFinite(Gradient());
  failed_ = overflowed_ || (counters_.phase == Phase::kTraining && sum_[kFailed] > 0);
  if (trains && !overflowed_) ApplyTraining();
  if (sum_[kRest] > 0) {
    counters_.phase = Phase::kEnded;
  } else if (counters_.phase == Phase::kPaused && sum_[kResume] > 0) {
    counters_.phase = Phase::kTraining;
    counters_.lowered = std::lround(sum_[kLowered] / sum_[kResume]);
  }
}

PlanRange Replica::NextStep(int64_t workers) {
  const bool grows = options_.batch_rule != BatchRule::kKeep;
  return walk_.StepAt(counters_.records, options_.batch_size * (grows ? workers : 1));
}

// A restart from a checkpoint phases the factor in again. No step holds more batches than its task.
double Replica::LearningRate(int64_t workers) {
  workers = std::min(workers, walk_.plan().options().batches_per_task);
  const auto factor = [&] {
    return PhaseIn(counters_.factor_before,
                   BatchFactor(options_.batch_rule, static_cast<double>(counters_.workers)),
                   counters_.records - counters_.workers_since, options_.batch_warmup);
  };
  if (workers != counters_.workers) {
    counters_.factor_before = factor();
    counters_.workers = workers;
    counters_.workers_since = counters_.records;
  }
  return LearningRateAt(optimizer_.spec(), counters_.records) * factor() *
         std::pow(options_.lower_rate, static_cast<double>(counters_.lowered));
}

void Replica::ApplyTraining() {
  const int64_t positions = std::lround(sum_[kPositions]);
  const int64_t rows = std::lround(sum_[kRows]);
  const int64_t workers = std::max<int64_t>(1, std::lround(sum_[kWorkers]));
  const PlanRange step = NextStep(workers);
  const bool others = (static_cast<uint64_t>(std::lround(sum_[kMarks])) & kMarkMax) != MarkOf(step);
  absl::Span<float> gradient = Gradient();
  if (rows > 0) {
    const float scale = 1.0f / static_cast<float>(rows);
    for (float& value : gradient) value *= scale;
    const OptimizerSpec& spec = optimizer_.spec();
    ClipGradient(spec, {&gradient, 1});
    optimizer_.UpdateDense({row_.data(), dense_}, OptimizerState(), gradient,
                           {.number = static_cast<uint32_t>(counters_.steps + 1),
                            .learning_rate = LearningRate(workers)});
    loss_ = sum_[kLoss] / static_cast<double>(rows);
  }
  counters_.wrong += std::max<int64_t>(std::abs(positions - step.size()), others ? 1 : 0);
  // Every epoch meets them again.
  if (walk_.EpochOf(counters_.records) == walk_.EpochOf(0)) counters_.bad_rows += positions - rows;
  counters_.records += step.size();
  ++counters_.steps;
  counters_.phase = PhaseAfterStep();
}

Replica::Phase Replica::PhaseAfterStep() const {
  if (counters_.records >= walk_.plan().records()) return Phase::kEnded;
  const bool pause = options_.pause_every > 0 && counters_.steps > 0 &&
                     counters_.steps % options_.pause_every == 0;
  return pause ? Phase::kPaused : Phase::kTraining;
}

std::vector<absl::Span<char>> Replica::State() {
  return {{reinterpret_cast<char*>(row_.data()), row_.size() * sizeof(float)},
          {reinterpret_cast<char*>(&counters_), sizeof(counters_)}};
}

uint64_t Replica::Checksum() const {
  return Mix(rubato::Checksum(BytesOf(row_)), static_cast<uint64_t>(counters_.records)) | 1;
}

std::string Replica::Encode() const {
  std::string bytes = EncodeHead();
  bytes.reserve(bytes.size() + row_.size() * sizeof(float) + sizeof(uint64_t));
  ByteWriter(bytes).PutSpan<float>(row_);
  Seal(bytes);
  return bytes;
}

std::string Replica::EncodeHead() const {
  std::string bytes;
  ByteWriter out(bytes);
  out.Put<uint64_t>(kMagic);
  for (const int64_t value :
       {static_cast<int64_t>(dense_), static_cast<int64_t>(row_.size()), counters_.steps,
        counters_.records, counters_.bad_rows, counters_.wrong, counters_.lowered}) {
    out.Put<int64_t>(value);
  }
  const std::vector<PlanNumber> plan = NumbersOf(walk_.plan().options());
  out.Put<int64_t>(static_cast<int64_t>(plan.size()));
  for (const PlanNumber& number : plan) out.Put<int64_t>(number.value);
  return bytes;
}

void Replica::EncodeRest(std::string& bytes) {
  bytes.resize(bytes.size() - sizeof(Counters));  // Those that last are in the head.
  Seal(bytes);
}

namespace {

// The parts of Encode()'s bytes.
struct Encoded {
  int64_t dense = 0;
  int64_t steps = 0, records = 0, bad_rows = 0, wrong = 0, lowered = 0;
  std::vector<int64_t> plan;  // NumbersOf(); empty in an old one.
  std::vector<float> row;
};

absl::StatusOr<Encoded> DecodeParts(absl::string_view bytes) {
  ByteReader in(bytes);
  Encoded parts;
  const uint64_t magic = in.Get<uint64_t>();
  parts.dense = in.Get<int64_t>();
  const int64_t floats = in.Get<int64_t>();
  for (int64_t* value : {&parts.steps, &parts.records, &parts.bad_rows, &parts.wrong}) {
    *value = in.Get<int64_t>();
  }
  const bool knows_plan = magic != kMagicBeforePlan && magic != kMagicBeforeLowered;
  if (magic != kMagicBeforeLowered) parts.lowered = in.Get<int64_t>();
  if (knows_plan) {
    const int64_t numbers = in.Get<int64_t>();
    parts.plan = in.GetVector<int64_t>(numbers < 0 ? 0 : static_cast<size_t>(numbers));
  }
  parts.row = in.GetVector<float>(floats < 0 ? 0 : static_cast<size_t>(floats));
  const size_t body = in.position();
  const uint64_t checksum = in.Get<uint64_t>();
  RUBATO_RETURN_IF_ERROR(in.Check("a worker's checkpoint"));
  if ((magic != kMagic && knows_plan) || checksum != rubato::Checksum(bytes.substr(0, body)) ||
      in.remaining() > 0) {
    return absl::DataLossError("it is damaged: its checksum does not hold");
  }
  return parts;
}

// So many records into one plan are others than as many into another.
absl::Status CheckPlan(const std::vector<int64_t>& saved, const TaskPlanOptions& plan) {
  const std::vector<PlanNumber> numbers = NumbersOf(plan);
  for (size_t i = 0; i < std::min(saved.size(), numbers.size()); ++i) {
    if (saved[i] == numbers[i].value) continue;
    const bool is_flag = absl::StartsWith(numbers[i].name, "shuffle.");
    const auto shown = [&](int64_t value) {
      return is_flag ? std::string(value != 0 ? "true" : "false") : absl::StrCat(value);
    };
    return absl::FailedPreconditionError(absl::StrCat(
        "it is of a job with ", numbers[i].name, " ", shown(saved[i]), ", and this one has ",
        shown(numbers[i].value), ": records would be trained twice or not at all; set it to ",
        shown(saved[i])));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Replica::Decode(absl::string_view bytes) {
  RUBATO_ASSIGN_OR_RETURN(Encoded parts, DecodeParts(bytes));
  if (static_cast<size_t>(parts.dense) != dense_ || parts.row.size() != row_.size()) {
    return absl::FailedPreconditionError(
        absl::StrCat("it is of another model or optimizer: ", parts.dense, " weights in ",
                     parts.row.size(), " numbers, not ", dense_, " in ", row_.size()));
  }
  RUBATO_RETURN_IF_ERROR(CheckPlan(parts.plan, walk_.plan().options()));
  row_ = std::move(parts.row);
  counters_ = {parts.steps, parts.records, parts.bad_rows, parts.wrong};
  counters_.lowered = parts.lowered;
  counters_.phase = PhaseAfterStep();
  return absl::OkStatus();
}

absl::StatusOr<std::vector<float>> ReplicaWeights(absl::string_view bytes) {
  RUBATO_ASSIGN_OR_RETURN(Encoded parts, DecodeParts(bytes));
  if (parts.dense < 0 || static_cast<size_t>(parts.dense) > parts.row.size()) {
    return absl::DataLossError("it holds fewer numbers than weights");
  }
  parts.row.resize(static_cast<size_t>(parts.dense));
  return std::move(parts.row);
}

}  // namespace rubato
