#include "rubato/roles/ending_alone.h"

namespace rubato {
namespace {

constexpr absl::Duration kGone = absl::Seconds(3);
// One that learns has heard from others, who may be in the middle of a long step.
constexpr absl::Duration kGoneLearning = absl::Minutes(1);
constexpr absl::Duration kUnheard = absl::Seconds(15);

}  // namespace

Ending EndingOf(const LoneStanding& standing) {
  if (standing.trained && standing.known) return Ending::kDone;
  if (standing.alone <= kGone) return Ending::kGoOn;
  const bool committed = !standing.learning && standing.committed >= standing.step;
  if (standing.trained && committed) return Ending::kDone;
  // Under `quorum: any` those who ended may be the other half of a split, and this one trains on.
  const bool lacks = standing.learning || standing.trained;
  const bool deserted = standing.unheard > kGone;
  if (standing.told && deserted && (lacks || standing.alone > kGoneLearning)) return Ending::kTold;
  if (standing.trained) {
    return standing.learning && standing.alone <= kGoneLearning ? Ending::kGoOn : Ending::kStopped;
  }
  const bool heard = standing.unheard < absl::InfiniteDuration();
  return standing.learning && heard && standing.unheard > kUnheard ? Ending::kLost : Ending::kGoOn;
}

bool MayKeep(const LoneStanding& standing) {
  return standing.step >= 0 && (!standing.learning || standing.step <= standing.committed);
}

}  // namespace rubato
