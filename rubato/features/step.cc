#include "rubato/features/step.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/data/criteo_parser.h"
#include "rubato/features/times.h"
#include "rubato/features/transforms.h"

namespace rubato {
namespace {

// number, normalize, log: `to_float` of every cell, or what stands for a missing one.
template <typename ToFloat>
class NumberStep : public Step {
 public:
  NumberStep(int slot, double otherwise, ToFloat to_float)
      : slot_(slot), missing_(to_float(otherwise)), to_float_(to_float) {}

  void Run(const RawChunk& chunk, const std::vector<FeatureColumn>&,
           FeatureColumn* out) const override {
    out->numbers.reserve(chunk.rows());
    for (const double x : chunk.number(slot_)) {
      out->numbers.push_back(std::isnan(x) ? missing_ : to_float_(x));
    }
  }

 private:
  const int slot_;
  const float missing_;
  const ToFloat to_float_;
};

// discretize, log_round, round_identity, time_part, criteo: `to_code` of every cell.
template <typename ToCode>
class BucketStep : public Step {
 public:
  BucketStep(int slot, std::optional<double> otherwise, int64_t size, ToCode to_code)
      : slot_(slot),
        missing_(otherwise.has_value() ? to_code(*otherwise) : kMissingCode),
        size_(size),
        to_code_(std::move(to_code)) {}

  void Run(const RawChunk& chunk, const std::vector<FeatureColumn>&,
           FeatureColumn* out) const override {
    out->codes.reserve(chunk.rows());
    for (const double x : chunk.number(slot_)) {
      out->codes.push_back(std::isnan(x) ? missing_ : to_code_(x));
    }
  }
  int64_t size() const override { return size_; }

 private:
  const int slot_;
  const int64_t missing_;
  const int64_t size_;
  const ToCode to_code_;
};

// hash, lookup, merge_rare: `to_code` of every text, or of every part of it.
template <typename ToCode>
class TextStep : public Step {
 public:
  TextStep(const FeatureSpec& spec, std::vector<std::string> missing, int slot, int64_t size,
           bool is_index, ToCode to_code)
      : missing_(std::move(missing)),
        slot_(slot),
        separator_(spec.separator.empty() ? '\0' : spec.separator[0]),
        weight_separator_(spec.weight_separator.empty() ? '\0' : spec.weight_separator[0]),
        brackets_(spec.brackets),
        values_max_(spec.values_max),
        size_(size),
        is_index_(is_index),
        to_code_(std::move(to_code)) {}

  void Run(const RawChunk& chunk, const std::vector<FeatureColumn>&,
           FeatureColumn* out) const override {
    const TextColumn& texts = chunk.text(slot_);
    out->codes.reserve(chunk.rows());
    for (size_t row = 0; row < chunk.rows(); ++row) {
      const absl::string_view text = texts[row];
      if (separator_ != '\0') {
        AddParts(text, out);
        out->ends.push_back(static_cast<uint32_t>(out->codes.size()));
      } else {
        out->codes.push_back(text.empty() ? kMissingCode : to_code_(text));
      }
    }
  }
  int64_t size() const override { return size_; }
  bool is_index() const override { return is_index_; }

 private:
  void AddParts(absl::string_view text, FeatureColumn* out) const {
    int64_t values = 0;
    SplitValues(text, separator_, brackets_, [&](absl::string_view part) {
      const float weight = weight_separator_ == '\0' ? 1 : TakeWeight(&part, weight_separator_);
      if (std::find(missing_.begin(), missing_.end(), part) != missing_.end()) return true;
      if (weight_separator_ != '\0') out->weights.push_back(weight);
      out->codes.push_back(to_code_(part));
      return ++values != values_max_;
    });
  }

  const std::vector<std::string> missing_;
  const int slot_;
  const char separator_;
  const char weight_separator_;
  const bool brackets_;
  const int64_t values_max_;
  const int64_t size_;
  const bool is_index_;
  const ToCode to_code_;
};

int64_t HashCode(absl::string_view text) { return static_cast<int64_t>(HashText(text, 0)); }

class CrossStep : public Step {
 public:
  CrossStep(std::vector<StepSource> inputs, int64_t buckets)
      : inputs_(std::move(inputs)), buckets_(buckets) {}

  void Run(const RawChunk& chunk, const std::vector<FeatureColumn>& done,
           FeatureColumn* out) const override {
    out->codes.assign(chunk.rows(), 0);
    for (const StepSource& input : inputs_) {
      for (size_t row = 0; row < chunk.rows(); ++row) {
        const int64_t code = input.kind == StepSource::Kind::kText
                                 ? HashCode(chunk.text(input.slot)[row])
                                 : done[static_cast<size_t>(input.slot)].codes[row];
        out->codes[row] = static_cast<int64_t>(
            CrossCode(static_cast<uint64_t>(out->codes[row]), static_cast<uint64_t>(code)));
      }
    }
    if (buckets_ == 0) return;
    for (int64_t& code : out->codes) {
      code = static_cast<int64_t>(static_cast<uint64_t>(code) % static_cast<uint64_t>(buckets_));
    }
  }
  int64_t size() const override { return buckets_; }
  bool is_index() const override { return buckets_ > 0; }

 private:
  const std::vector<StepSource> inputs_;
  const int64_t buckets_;
};

class ConcatenateStep : public Step {
 public:
  ConcatenateStep(std::vector<StepSource> inputs, std::vector<int64_t> offsets)
      : inputs_(std::move(inputs)), offsets_(std::move(offsets)) {}

  void Run(const RawChunk& chunk, const std::vector<FeatureColumn>& done,
           FeatureColumn* out) const override {
    for (size_t row = 0; row < chunk.rows(); ++row) {
      for (size_t i = 0; i < inputs_.size(); ++i) {
        const int64_t code = done[static_cast<size_t>(inputs_[i].slot)].codes[row];
        if (code != kMissingCode) out->codes.push_back(code + offsets_[i]);
      }
      out->ends.push_back(static_cast<uint32_t>(out->codes.size()));
    }
  }

 private:
  const std::vector<StepSource> inputs_;
  const std::vector<int64_t> offsets_;
};

// Most values are small, and a look-up is cheaper than a logarithm.
constexpr size_t kSmall = 1024;

// Criteo's bins.
struct CriteoCode {
  CriteoCode() {
    for (size_t v = 0; v < small.size(); ++v) small[v] = CriteoBin(static_cast<int64_t>(v));
  }
  int64_t operator()(double x) const {
    if (x >= 0 && x < kSmall) return small[static_cast<size_t>(x)];
    constexpr double kMost = 1e18;
    return CriteoBin(static_cast<int64_t>(std::floor(std::clamp(x, -kMost, kMost))));
  }
  std::array<int64_t, kSmall> small;
};

struct LogOf {
  LogOf() {
    for (size_t v = 0; v < small.size(); ++v) small[v] = SignedLog(static_cast<double>(v));
  }
  float operator()(double x) const {
    if (!(x >= 0 && x < kSmall)) return SignedLog(x);
    const size_t whole = static_cast<size_t>(x);
    return static_cast<double>(whole) == x ? small[whole] : SignedLog(x);
  }
  std::array<float, kSmall> small;
};

template <typename F>
std::unique_ptr<Step> Number(const FeatureSpec& f, int slot, double otherwise, F to_float) {
  return std::make_unique<NumberStep<F>>(slot, f.otherwise.value_or(otherwise), to_float);
}

template <typename F>
std::unique_ptr<Step> Bucket(const FeatureSpec& f, int slot, int64_t size, F to_code) {
  return std::make_unique<BucketStep<F>>(slot, f.otherwise, size, std::move(to_code));
}

template <typename F>
std::unique_ptr<Step> Text(const FeatureSpec& f, const std::vector<std::string>& missing, int slot,
                           int64_t size, bool is_index, F to_code) {
  return std::make_unique<TextStep<F>>(f, missing, slot, size, is_index, std::move(to_code));
}

std::unique_ptr<Step> MakeNumberStep(const FeatureSpec& f, int slot) {
  if (f.transform == "number") {
    return Number(f, slot, 0, [](double x) { return static_cast<float>(x); });
  }
  if (f.transform == "normalize") {
    return Number(f, slot, f.mean,
                  [mean = f.mean, deviation = f.deviation, min = f.min.value_or(-INFINITY),
                   max = f.max.value_or(INFINITY)](double x) {
                    return Normalize(std::clamp(x, min, max), mean, deviation);
                  });
  }
  if (f.transform == "log") return Number(f, slot, 0, LogOf());
  if (f.transform == "discretize") {
    const int64_t size = static_cast<int64_t>(f.boundaries.size()) + 1;
    return Bucket(f, slot, size,
                  [boundaries = f.boundaries](double x) { return Discretize(x, boundaries); });
  }
  if (f.transform == "log_round") {
    return Bucket(f, slot, f.buckets,
                  [base = f.base, buckets = f.buckets, outside = f.outside](double x) {
                    return LogRound(x, base, buckets, outside);
                  });
  }
  if (f.transform == "round_identity") {
    return Bucket(f, slot, f.buckets, [buckets = f.buckets, outside = f.outside](double x) {
      return RoundIdentity(x, buckets, outside);
    });
  }
  if (f.transform == "time_part") {
    const TimePart part = *TimePartNamed(f.part);
    const TimeUnit unit = TimeUnitNamed(f.unit).value_or(TimeUnit::kSeconds);
    return Bucket(f, slot, CountOf(part), [part, unit](double x) {
      const std::optional<double> seconds = ToTime(x, unit);
      return seconds.has_value() ? PartOf(*seconds, part) : kMissingCode;
    });
  }
  return Bucket(f, slot, 0, CriteoCode());
}

absl::StatusOr<std::unique_ptr<Step>> MakeTextStep(const FeatureSpec& f,
                                                   const std::vector<std::string>& missing,
                                                   int slot) {
  if (f.transform == "hash") {
    if (f.buckets == 0) return Text(f, missing, slot, 0, false, HashCode);
    return Text(f, missing, slot, f.buckets, true, [buckets = f.buckets](absl::string_view text) {
      return HashBucket(text, buckets);
    });
  }
  RUBATO_ASSIGN_OR_RETURN(Vocabulary vocabulary, Vocabulary::Make(f.vocabulary));
  if (f.transform == "lookup") {
    const int64_t size = vocabulary.size() + f.oov;
    return Text(f, missing, slot, size, true,
                [words = std::move(vocabulary), oov = f.oov](absl::string_view text) {
                  return words.Find(text, oov);
                });
  }
  // By the words' hashes, which are their ids: a stranger of the same 64 bits would share the id
  // without a vocabulary too.
  absl::flat_hash_set<int64_t> codes;
  for (const std::string& word : f.vocabulary) codes.insert(HashCode(word));
  return Text(
      f, missing, slot, 0, false,
      [codes = std::move(codes), spellings = Spellings(f.vocabulary)](absl::string_view text) {
        const int64_t code = HashCode(text);
        if (codes.contains(code)) return code;
        const absl::string_view word = spellings.Respell(text);
        if (word == text) return kRareCode;
        const int64_t respelt = HashCode(word);
        return codes.contains(respelt) ? respelt : kRareCode;
      });
}

}  // namespace

absl::StatusOr<std::unique_ptr<Step>> MakeStep(const FeatureSpec& spec,
                                               const std::vector<std::string>& missing,
                                               const std::vector<StepSource>& inputs,
                                               const std::vector<int64_t>& sizes) {
  if (ReadsNumber(spec.transform)) return MakeNumberStep(spec, inputs[0].slot);
  if (ReadsText(spec.transform)) return MakeTextStep(spec, missing, inputs[0].slot);
  if (spec.transform == "cross") return std::make_unique<CrossStep>(inputs, spec.buckets);
  std::vector<int64_t> offsets = spec.offsets;
  int64_t sum = 0;
  for (size_t i = 0; i < sizes.size() && spec.offsets.empty(); ++i) {
    offsets.push_back(sum);
    sum += sizes[i];
  }
  return std::make_unique<ConcatenateStep>(inputs, std::move(offsets));
}

}  // namespace rubato
