#include "rubato/roles/ending_alone.h"

namespace rubato {
namespace {

constexpr absl::Duration kGone = absl::Seconds(3);
// One that learns has heard from others, who may be in the middle of a long step.
constexpr absl::Duration kGoneLearning = absl::Minutes(1);

}  // namespace

Ending EndingOf(const LoneStanding& standing) {
  if (!standing.trained) return Ending::kGoOn;
  if (standing.known) return Ending::kDone;
  if (standing.alone <= (standing.learning ? kGoneLearning : kGone)) return Ending::kGoOn;
  const bool committed = !standing.learning && standing.committed >= standing.step;
  return committed ? Ending::kDone : Ending::kStopped;
}

bool MayKeep(const LoneStanding& standing) {
  return standing.step >= 0 && (!standing.learning || standing.step <= standing.committed);
}

}  // namespace rubato
