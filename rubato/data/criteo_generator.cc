#include "rubato/data/criteo_generator.h"

#include <algorithm>
#include <charconv>
#include <cmath>

#include "rubato/base/status.h"

namespace rubato {
namespace {

struct IntegerShape {
  double missing;  // Share of rows.
  double median;
  double sigma;  // Of the logarithm.
  int64_t minimum;
};

// After the statistics of the log of Criteo's contest of 2014.
constexpr IntegerShape kIntegerShapes[kCriteoIntegers] = {
    {0.45, 1.5, 1.3, 0},   {0.00, 4, 2.6, -1},  {0.215, 7, 1.7, 0}, {0.217, 5, 1.1, 0},
    {0.026, 2800, 1.9, 0}, {0.224, 33, 1.6, 0}, {0.043, 4, 1.8, 0}, {0.001, 8, 1.1, 0},
    {0.043, 39, 1.4, 0},   {0.45, 1.2, 0.5, 0}, {0.043, 2, 1.2, 0}, {0.765, 0.8, 1.0, 0},
    {0.217, 5, 1.2, 0}};
constexpr double kIntegerMax = 1e7;

struct TextShape {
  int64_t values;
  double missing;
};

constexpr TextShape kTextShapes[kCriteoTexts] = {
    {1460, 0},        {583, 0},         {10131227, 0.034}, {2202608, 0.034}, {305, 0},
    {24, 0.12},       {12517, 0},       {633, 0},          {3, 0},           {93145, 0},
    {5683, 0},        {8351593, 0.034}, {3194, 0},         {27, 0},          {14992, 0},
    {5461306, 0.034}, {10, 0},          {5652, 0},         {2173, 0.44},     {4, 0.44},
    {7046547, 0.034}, {18, 0.76},       {15, 0},           {286181, 0.034},  {105, 0.44},
    {142572, 0.44}};

// Rarer values than these have no effect; bins of integers up to ten million fit easily.
constexpr int64_t kEffectiveValues = 4096;
constexpr int64_t kBins = 300;
constexpr double kZipfExponent = 1.2;
// A value seen this often in 200,000 rows has half of its effect.
constexpr double kHalfEffectShare = 1000 / 200'000.0;
// Texts that interact, those with few values, each seen often enough to learn it from: C5, C6, C9,
// C14, C17, C20, C23, C25.
constexpr uint32_t kInteracting =
    1u << 4 | 1u << 5 | 1u << 8 | 1u << 13 | 1u << 16 | 1u << 19 | 1u << 22 | 1u << 24;
constexpr double kTogether = 0.30;  // The deviation of interaction vectors.

double Sigmoid(double x) { return 1 / (1 + std::exp(-x)); }

// A bijection of 32 bits: different ranks are different texts.
uint32_t Scramble(uint32_t x) {
  x = (x ^ (x >> 16)) * 0x7feb352du;
  x = (x ^ (x >> 15)) * 0x846ca68bu;
  return x ^ (x >> 16);
}

// Appends a tab and eight hexadecimal digits.
char* PutHex(char* at, uint32_t value) {
  *at++ = '\t';
  for (int shift = 28; shift >= 0; shift -= 4) *at++ = "0123456789abcdef"[value >> shift & 15];
  return at;
}

// The bias that makes the mean probability `rate`.
double FindBias(const std::vector<double>& scores, double scale, double rate) {
  double low = -20, high = 20;
  for (int i = 0; i < 30; ++i) {
    const double bias = (low + high) / 2;
    double sum = 0;
    for (const double score : scores) sum += Sigmoid(scale * score + bias);
    (sum / static_cast<double>(scores.size()) < rate ? low : high) = bias;
  }
  return (low + high) / 2;
}

// The AUC to expect of the true probabilities. `scores` are sorted.
double ExpectedAuc(const std::vector<double>& scores, double scale, double bias) {
  double clicks = 0, others = 0, ordered = 0;
  for (const double score : scores) {
    const double p = Sigmoid(scale * score + bias);
    ordered += p * (others + 0.5 * (1 - p));
    clicks += p;
    others += 1 - p;
  }
  return ordered / (clicks * others);
}

}  // namespace

CriteoGenerator::CriteoGenerator(const CriteoGeneratorOptions& options) {
  Rng rng(Mix(options.seed, 0));
  for (int i = 0; i < kCriteoTexts; ++i) {
    cardinalities_[i] = std::min(kTextShapes[i].values, options.cardinality_max);
    span_[i] = std::pow(static_cast<double>(cardinalities_[i] + 1), 1 - kZipfExponent) - 1;
    power_[i] = 1 / (1 - kZipfExponent);
    text_key_[i] = static_cast<uint32_t>(rng.Next());
  }
  MakeEffects(rng);
  Calibrate(rng, options);
}

void CriteoGenerator::MakeEffects(Rng& rng) {
  for (int field = 0; field < kCriteoIds; ++field) {
    const int text = field - kCriteoIntegers;
    const bool is_text = text >= 0;
    const bool interacts = is_text && (kInteracting >> text & 1) != 0;
    const int64_t values = is_text ? std::min(cardinalities_[text], kEffectiveValues) : kBins;
    const double weight = 0.1 + 1.2 * std::pow(rng.Uniform(), 4);
    const double slope = rng.Uniform(-0.15, 0.15);
    effects_[field].resize(static_cast<size_t>(values) + 1);
    for (int64_t value = 0; value <= values; ++value) {
      double shrink = 1;
      if (is_text && value < values) {
        // The share of rows with this value, from the distribution in DrawRank().
        const double rank = static_cast<double>(value);
        const double share =
            (std::pow(rank + 2, 1 / power_[text]) - std::pow(rank + 1, 1 / power_[text])) /
            span_[text];
        shrink = share / (share + kHalfEffectShare);
      }
      Effect& effect = effects_[field][static_cast<size_t>(value)];
      // Neighbouring bins of an integer are alike: the square root of a bin is the logarithm.
      const double trend = is_text ? 0 : slope * std::sqrt(static_cast<double>(value));
      effect.alone = static_cast<float>(trend + shrink * (is_text ? weight : 0.15) * rng.Normal());
      for (float& x : effect.together) {
        x = interacts ? static_cast<float>(kTogether * shrink * rng.Normal()) : 0;
      }
    }
  }
}

void CriteoGenerator::Calibrate(Rng rng, const CriteoGeneratorOptions& options) {
  std::vector<double> scores(20000);
  for (double& score : scores) score = DrawRow(rng).score;
  std::sort(scores.begin(), scores.end());
  double low = 0, high = 20;
  for (int i = 0; i < 20; ++i) {
    scale_ = (low + high) / 2;
    bias_ = FindBias(scores, scale_, options.click_rate);
    (ExpectedAuc(scores, scale_, bias_) < options.best_auc ? low : high) = scale_;
  }
}

int64_t CriteoGenerator::DrawRank(int text, Rng& rng) const {
  // A Pareto variable between 1 and n + 1, cut to an integer: near enough to Zipf, at the cost of
  // one power.
  const double x = std::pow(1 + rng.Uniform() * span_[text], power_[text]);
  return std::min(static_cast<int64_t>(x) - 1, cardinalities_[text] - 1);
}

const CriteoGenerator::Effect& CriteoGenerator::EffectOf(int field, int64_t value) const {
  static constexpr Effect kNone;
  const std::vector<Effect>& effects = effects_[field];
  if (value < 0) return effects.back();
  return value + 1 < static_cast<int64_t>(effects.size()) ? effects[static_cast<size_t>(value)]
                                                          : kNone;
}

CriteoGenerator::Draw CriteoGenerator::DrawRow(Rng& rng) const {
  Draw draw;
  for (int i = 0; i < kCriteoIntegers; ++i) {
    const IntegerShape& shape = kIntegerShapes[i];
    int64_t bin = -1;
    if (rng.Chance(shape.missing)) {
      draw.missing_integers |= 1u << i;
    } else {
      const double size = shape.median * std::exp(shape.sigma * rng.Normal());
      draw.integers[i] = static_cast<int64_t>(std::min(size, kIntegerMax)) + shape.minimum;
      bin = std::max<int64_t>(0, CriteoBin(draw.integers[i]));
    }
    draw.score += EffectOf(i, bin).alone;
  }
  std::array<float, kRank> sum = {};
  float squares = 0;
  for (int i = 0; i < kCriteoTexts; ++i) {
    const bool is_missing = kTextShapes[i].missing > 0 && rng.Chance(kTextShapes[i].missing);
    draw.ranks[i] = is_missing ? -1 : DrawRank(i, rng);
    const Effect& effect = EffectOf(kCriteoIntegers + i, draw.ranks[i]);
    draw.score += effect.alone;
    if ((kInteracting >> i & 1) == 0) continue;
    for (int k = 0; k < kRank; ++k) {
      sum[k] += effect.together[k];
      squares += effect.together[k] * effect.together[k];
    }
  }
  // All pairs at once: the square of a sum, less the squares.
  float together = -squares;
  for (const float s : sum) together += s * s;
  draw.score += 0.5 * together;
  return draw;
}

GeneratedLabel CriteoGenerator::AppendRow(Rng& rng, std::string* out) const {
  const Draw draw = DrawRow(rng);
  GeneratedLabel label;
  label.probability = static_cast<float>(Sigmoid(scale_ * draw.score + bias_));
  label.click = rng.Chance(label.probability);

  char row[2 + kCriteoIntegers * 21 + kCriteoTexts * 9 + 1];
  char* at = row;
  *at++ = label.click ? '1' : '0';
  for (int i = 0; i < kCriteoIntegers; ++i) {
    *at++ = '\t';
    if ((draw.missing_integers >> i & 1) == 0)
      at = std::to_chars(at, at + 20, draw.integers[i]).ptr;
  }
  for (int i = 0; i < kCriteoTexts; ++i) {
    if (draw.ranks[i] < 0) {
      *at++ = '\t';
    } else {
      at = PutHex(at, Scramble(static_cast<uint32_t>(draw.ranks[i]) + text_key_[i]));
    }
  }
  *at++ = '\n';
  out->append(row, static_cast<size_t>(at - row));
  return label;
}

BestScores ScoreTruth(std::vector<GeneratedLabel> labels) {
  BestScores best;
  if (labels.empty()) return best;
  std::sort(labels.begin(), labels.end(), [](const GeneratedLabel& a, const GeneratedLabel& b) {
    return a.probability < b.probability;
  });
  double clicks = 0, others = 0, ordered = 0;
  for (size_t i = 0; i < labels.size();) {
    // Rows of one probability are counted as half in order.
    double tied_clicks = 0, tied_others = 0;
    const float probability = labels[i].probability;
    for (; i < labels.size() && labels[i].probability == probability; ++i) {
      (labels[i].click ? tied_clicks : tied_others) += 1;
    }
    ordered += tied_clicks * (others + 0.5 * tied_others);
    clicks += tied_clicks;
    others += tied_others;
    best.logloss -= tied_clicks * std::log(probability) + tied_others * std::log1p(-probability);
  }
  const double rows = static_cast<double>(labels.size());
  best.logloss /= rows;
  best.click_rate = clicks / rows;
  if (clicks > 0 && others > 0) best.auc = ordered / (clicks * others);
  return best;
}

}  // namespace rubato
