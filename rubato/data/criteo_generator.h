// Rows that look like Criteo's click log, from a model that is known: what a trained model reaches
// can be held against the best that could be reached.
//
// Integers are log-normal, texts Zipf-distributed over about as many values as in the real log,
// both missing as often. The logit of a click is a sum of an effect of every value and of low-rank
// interactions between some fields,
//
//     bias + scale * (sum_f w_f(x_f) + sum_{f < g} <v_f(x_f), v_g(x_g)>),
//
// where the effect of a value shrinks with its rarity, so that most of what there is to learn can
// be learned from 200,000 rows. Scale and bias are set so that the true probabilities reach the AUC
// and the share of clicks asked for.
#ifndef RUBATO_DATA_CRITEO_GENERATOR_H_
#define RUBATO_DATA_CRITEO_GENERATOR_H_

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/data/criteo_parser.h"

namespace rubato {

struct CriteoGeneratorOptions {
  uint64_t seed = 7;  // Of the model. Rows take their chance from the Rng handed in.
  double best_auc = 0.80;
  double click_rate = 0.25;
  int64_t cardinality_max = 1'000'000;  // The real log has fields of ten million values.
};

// What a row turned out to be.
struct GeneratedLabel {
  float probability = 0;  // Of a click, in truth.
  bool click = false;     // As drawn.
};

class CriteoGenerator {
 public:
  explicit CriteoGenerator(const CriteoGeneratorOptions& options);

  // Appends one row with its line break: the same for the same model and state of `rng`.
  GeneratedLabel AppendRow(Rng& rng, std::string* out) const;
  // Values of C1..C26.
  const std::array<int64_t, kCriteoTexts>& cardinalities() const { return cardinalities_; }

 private:
  static constexpr int kRank = 2;

  // What a value does to the logit: alone, and together with others.
  struct Effect {
    float alone = 0;
    std::array<float, kRank> together = {};
  };
  // The values of one row: `bin` of an integer or rank of a text, -1 if missing.
  struct Draw {
    std::array<int64_t, kCriteoIntegers> integers;
    std::array<int64_t, kCriteoTexts> ranks;
    uint32_t missing_integers = 0;  // Bit i: integer i is missing.
    double score = 0;               // The logit before scale and bias.
  };

  void MakeEffects(Rng& rng);
  // Draws rows until scale and bias are known.
  void Calibrate(Rng rng, const CriteoGeneratorOptions& options);
  Draw DrawRow(Rng& rng) const;
  const Effect& EffectOf(int field, int64_t value) const;
  int64_t DrawRank(int text, Rng& rng) const;

  std::array<int64_t, kCriteoTexts> cardinalities_;
  // The Zipf distribution of a text: rank = floor((1 + u * span)^power), see DrawRank().
  std::array<double, kCriteoTexts> span_, power_;
  std::array<uint32_t, kCriteoTexts> text_key_;
  // By field, then by bin or rank; the last entry is that of a missing value, and values beyond the
  // table have none.
  std::array<std::vector<Effect>, kCriteoIds> effects_;
  double scale_ = 1;
  double bias_ = 0;
};

// How well the true probabilities do on the labels drawn: no model can be expected to do better.
struct BestScores {
  double auc = 0.5;
  double logloss = 0;
  double click_rate = 0;
};
BestScores ScoreTruth(std::vector<GeneratedLabel> labels);

}  // namespace rubato

#endif  // RUBATO_DATA_CRITEO_GENERATOR_H_
