#include "rubato/params/optimizer.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>

#include "absl/strings/string_view.h"
#include "rubato/base/status.h"
#include "rubato/params/optimizer_builds.h"

namespace rubato {
namespace {

const OptimizerKernels& Kernels() {
  static const OptimizerKernels& chosen = *OptimizerBuilds().back();
  return chosen;
}

const OptimizerRule* FindRule(absl::string_view name) {
  const OptimizerKernels& kernels = Kernels();
  for (size_t i = 0; i < kernels.rules_count; ++i) {
    if (name == kernels.rules[i].name) return &kernels.rules[i];
  }
  return nullptr;
}

// Numbers of steps lie among a row's floats, as bits.
uint32_t GetBits(const float* at) {
  uint32_t bits;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}
void PutBits(float* at, uint32_t bits) { std::memcpy(at, &bits, sizeof(bits)); }

BiasCorrection Correction(const OptimizerSpec& spec, double updates) {
  return {static_cast<float>(1 / (1 - std::pow(spec.beta1, updates))),
          static_cast<float>(1 / std::sqrt(1 - std::pow(spec.beta2, updates)))};
}

// Worked out ahead until nothing is left to correct; beyond the limit each pays for its own.
constexpr size_t kCorrectionsMax = 1 << 15;
std::vector<BiasCorrection> Corrections(const OptimizerSpec& spec) {
  std::vector<BiasCorrection> corrections(1);
  do {
    corrections.push_back(Correction(spec, static_cast<double>(corrections.size())));
  } while (corrections.size() < kCorrectionsMax &&
           (corrections.back().mean != 1 || corrections.back().root_square != 1));
  return corrections;
}

OptimizerConstants ConstantsOf(const OptimizerSpec& spec, const OptimizerRule& rule) {
  const auto f = [](double value) { return static_cast<float>(value); };
  OptimizerConstants c;
  c.rate = c.base_rate = f(spec.learning_rate);
  c.epsilon = f(spec.epsilon == -1 ? rule.epsilon : spec.epsilon);
  c.initial_accumulator = f(spec.initial_accumulator);
  c.weight_decay = f(spec.weight_decay);
  c.momentum = f(spec.momentum);
  c.beta1 = f(spec.beta1);
  c.one_minus_beta1 = f(1 - spec.beta1);
  c.beta2 = f(spec.beta2);
  c.one_minus_beta2 = f(1 - spec.beta2);
  c.alpha = f(spec.alpha);
  c.one_minus_alpha = f(1 - spec.alpha);
  c.l1 = f(spec.l1);
  c.l2 = f(spec.l2);
  c.beta = f(spec.beta);
  return c;
}

// The pull that `missed` steps owe to a row, in steps. A mean of squares that went on through them,
// as a dense one does, would be the smaller by (1 - beta2) / (1 - beta2^n) for a row that is in
// every nth batch, and what is divided by its root the larger. An update does without, so that rare
// ids get full steps; the pull does not, or rare ids, which need it most, would hardly feel it.
float PullOwed(const OptimizerSpec& spec, const OptimizerRule& rule, uint32_t missed) {
  if (!rule.corrects_bias) return static_cast<float>(missed);
  const double larger = (1 - std::pow(spec.beta2, missed + 1.0)) / (1 - spec.beta2);
  return static_cast<float>(missed * std::sqrt(larger));
}

std::array<MissedSteps, 32> Doublings(const OptimizerSpec& spec) {
  std::array<MissedSteps, 32> all = {};
  for (uint32_t d = 0; d < all.size(); ++d) {
    const double steps = std::ldexp(1.0, static_cast<int>(d));
    all[d] = {d, static_cast<float>(std::pow(spec.beta2, steps)),
              static_cast<float>(std::pow(spec.beta2, (steps + 1) / 2)), 1, 1};
  }
  return all;
}

uint32_t FloorLog2(uint32_t number) { return 31 - static_cast<uint32_t>(__builtin_clz(number)); }

}  // namespace

absl::StatusOr<Optimizer> Optimizer::Make(const OptimizerSpec& spec, bool stamp_rows) {
  RUBATO_RETURN_IF_ERROR(spec.Validate());
  Optimizer made;
  made.spec_ = spec;
  made.rule_ = FindRule(spec.name);
  RUBATO_CHECK(made.rule_ != nullptr);  // Validate knows the same names.
  made.dense_rule_ = made.rule_->dense == nullptr ? made.rule_ : FindRule(made.rule_->dense);
  made.stamped_ = stamp_rows || made.moves_meanwhile();
  made.scalars_ = made.rule_->scalars + made.counts_updates() + made.stamped_;
  made.constants_ = ConstantsOf(spec, *made.rule_);
  if (made.rule_->corrects_bias) {
    made.corrections_ = std::make_shared<std::vector<BiasCorrection>>(Corrections(spec));
  }
  if (made.rule_->meanwhile != nullptr) made.doublings_ = Doublings(spec);
  return made;
}

OptimizerConstants Optimizer::At(OptimizerStep step) const {
  OptimizerConstants c = constants_;
  c.rate = static_cast<float>(step.learning_rate * step.freshness);
  c.catch_up_rate = static_cast<float>(step.learning_rate);
  c.rate_of_base = static_cast<float>(step.freshness * (step.learning_rate / spec_.learning_rate));
  c.step = step.number;
  c.missed_decay = std::log1p(-step.learning_rate * spec_.weight_decay);
  return c;
}

BiasCorrection Optimizer::CorrectionFor(uint32_t updates) const {
  if (!rule_->corrects_bias) return {};
  if (updates < corrections_->size()) return (*corrections_)[updates];
  return corrections_->size() < kCorrectionsMax ? BiasCorrection{} : Correction(spec_, updates);
}

// ---- dense weights ----

void Optimizer::StartDense(absl::Span<const float> weights, absl::Span<float> state) const {
  RUBATO_CHECK(state.size() == dense_state_floats(weights.size()));
  std::fill(state.begin(), state.end(), 0.0f);
  if (dense_rule_->start == nullptr) return;
  dense_rule_->start({const_cast<float*>(weights.data()), state.data(), nullptr}, weights.size(),
                     constants_);
}

void Optimizer::UpdateDense(absl::Span<float> weights, absl::Span<float> state,
                            absl::Span<const float> gradient, OptimizerStep step) const {
  RUBATO_CHECK(gradient.size() == weights.size());
  RUBATO_CHECK(state.size() == dense_state_floats(weights.size()));
  const OptimizerRun run = {weights.data(), state.data(), gradient.data()};
  const BiasCorrection correction = CorrectionFor(step.number);
  dense_rule_->update(&run, &correction, 1, weights.size(), At(step));
}

// ---- rows ----

void Optimizer::StartRow(float* row, const RowPart& part, uint32_t number) const {
  float* state = row + part.state_at;
  const size_t floats = row_state_floats(part.dim);
  std::fill(state, state + floats, 0.0f);
  if (rule_->start != nullptr) {
    rule_->start({row + part.weights_at, state, nullptr}, part.dim, constants_);
  }
  if (stamped_) PutBits(state + floats - 1, number - 1);
}

size_t Optimizer::CountAt(const RowPart& part) const {
  return part.state_at + part.dim * rule_->slots + rule_->scalars;
}

uint32_t Optimizer::StampOf(const float* row, const RowPart& part) const {
  return GetBits(row + part.state_at + row_state_floats(part.dim) - 1);
}

void Optimizer::Present(const float* row, float* weights, const RowPart& part,
                        const OptimizerConstants& c) const {
  CatchUp(row, weights, /*state_after=*/nullptr, part, c);
}

void Optimizer::CatchUp(const float* row, float* weights, float* state_after, const RowPart& part,
                        const OptimizerConstants& c) const {
  const uint32_t last = StampOf(row, part);
  if (c.step <= last + 1) return;
  const uint32_t missed = c.step - last - 1;
  float* columns = weights + part.weights_at;
  const float* state = row + part.state_at;
  if (rule_->meanwhile != nullptr) {
    return Meanwhile(last, missed, columns, state, state_after, part.dim, c);
  }
  if (rule_->catch_up == nullptr) {
    const auto kept = static_cast<float>(std::exp(c.missed_decay * missed));
    for (size_t i = 0; i < part.dim; ++i) columns[i] *= kept;
    return;
  }
  const uint32_t updates = rule_->corrects_bias ? GetBits(row + CountAt(part)) : 1;
  if (updates == 0) return;  // It has no root yet.
  rule_->catch_up(columns, state, part.dim, PullOwed(spec_, *rule_, missed), c,
                  CorrectionFor(updates));
}

// Powers of two, each at most a quarter of the steps before it: a root hardly changes meanwhile.
void Optimizer::Meanwhile(uint32_t last, uint32_t missed, float* columns, const float* state,
                          float* state_after, size_t dim, const OptimizerConstants& c) const {
  constexpr size_t kBlocksMax = 5 * 32;  // Four of each length, and what is left over.
  std::array<MissedSteps, kBlocksMax> blocks;
  size_t count = 0;
  for (uint32_t done = 0; done < missed;) {
    const uint32_t d = FloorLog2(std::min(std::max(done / 4, 1u), missed - done));
    const BiasCorrection middle = CorrectionFor(last + done + ((1u << d) + 1) / 2);
    blocks[count] = doublings_[d];
    blocks[count].mean = middle.mean;
    blocks[count++].root_square = middle.root_square;
    done += 1u << d;
  }
  rule_->meanwhile(columns, state, state_after, dim, blocks.data(), count, c);
}

void Optimizer::UpdateRows(absl::Span<const RowUpdate> updates, const RowPart& part,
                           const OptimizerConstants& constants) const {
  constexpr size_t kTogether = 16;
  std::array<OptimizerRun, kTogether> runs;
  std::array<BiasCorrection, kTogether> corrections;
  const size_t count_at = CountAt(part);
  const size_t stamp_at = part.state_at + row_state_floats(part.dim) - 1;
  for (size_t begin = 0; begin < updates.size(); begin += kTogether) {
    const size_t count = std::min(kTogether, updates.size() - begin);
    for (size_t i = 0; i < count; ++i) {
      const auto [row, gradient] = updates[begin + i];
      runs[i] = {row + part.weights_at, row + part.state_at, gradient + part.weights_at};
      if (moves_meanwhile()) CatchUp(row, row, row + part.state_at, part, constants);
      if (counts_updates()) {
        const uint32_t times = GetBits(row + count_at) + 1;
        PutBits(row + count_at, times);
        corrections[i] = CorrectionFor(times);
      } else {
        corrections[i] = CorrectionFor(constants.step);
      }
      if (stamped_) PutBits(row + stamp_at, constants.step);
    }
    rule_->update(runs.data(), corrections.data(), count, part.dim, constants);
  }
}

bool Optimizer::moves_by_number() const {
  const bool all_known = !counts_updates() || corrections_->size() < kCorrectionsMax;
  return !moves_meanwhile() && !stamped_ && all_known;
}

void Optimizer::UpdateNumbered(NumberedRows rows, const RowPart& part,
                               const OptimizerConstants& constants) const {
  const BiasCorrection same = CorrectionFor(constants.step);
  rows.counts = counts_updates();
  rows.updates_at = CountAt(part) - part.state_at;
  rows.corrections = rows.counts ? corrections_->data() : &same;
  rows.corrections_count = rows.counts ? corrections_->size() : 1;
  rule_->update_numbered(rows, part.dim, constants);
}

bool AllFinite(absl::Span<const float> values) {
  return Kernels().all_finite(values.data(), values.size());
}

}  // namespace rubato
