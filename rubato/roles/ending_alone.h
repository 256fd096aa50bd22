// When a worker without a master may end, and what it may keep. Pure: GroupLoop does the rest.
#ifndef RUBATO_ROLES_ENDING_ALONE_H_
#define RUBATO_ROLES_ENDING_ALONE_H_

#include <cstdint>

#include "absl/time/time.h"

namespace rubato {

// How a worker stands beside its group.
struct LoneStanding {
  bool trained = false;    // The state here is that after the last record.
  bool known = false;      // ... and nobody can undo it, as the group has said.
  bool learning = false;   // Its state is to be replaced by that of the others.
  bool told = false;       // Others have said that they trained to the end.
  int64_t step = -1;       // See ElasticGroup::step() and
  int64_t committed = -1;  // committed().
  absl::Duration alone;    // Since it last took part in a step,
  // and since it heard of anyone who could let it; infinite: it never did, and they may yet come.
  absl::Duration unheard = absl::InfiniteDuration();
};

enum class Ending : uint8_t {
  kGoOn,
  kDone,     // All is trained, and this is the group's result.
  kStopped,  // All is trained, but whether the group has the same is not known: as if told to stop.
  kTold,     // All is trained, and others have the result: this one came too late to copy it.
  kLost      // Nobody is left to copy from, and what became of training is not known.
};

// Whoever has the last step and hears of nobody for a while has been left by those who knew that
// all have it, or cut off from those who may redo it. Only in the first case is it committed here.
// Whoever lacks it waits for those it copies from; if they have trained to the end they say so, and
// if they only vanish, it does not wait for ever.
Ending EndingOf(const LoneStanding& standing);

// Whether what this worker holds may be kept as a checkpoint when it goes and nobody else is there.
// Of one that learns, what it held before: the group had it too. A step that is in the state but
// not yet known to be committed is kept as well, for it cannot be taken out again, every record
// counts once in it, and whoever resumes from it does so because there is no group any more.
bool MayKeep(const LoneStanding& standing);

}  // namespace rubato

#endif  // RUBATO_ROLES_ENDING_ALONE_H_
