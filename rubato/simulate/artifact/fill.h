// How the artifact plans one job into what earlier jobs left free.
#ifndef RUBATO_SIMULATE_ARTIFACT_FILL_H_
#define RUBATO_SIMULATE_ARTIFACT_FILL_H_

#include "rubato/simulate/artifact/job.h"

namespace rubato {

struct ArtifactFill {
  bool in_time = false;
  ArtifactSteps plan;
  ArtifactSteps free;   // What is left for the next job.
  double end = 0;       // Rounded up to the grid that starts at this decision.
  double real_end = 0;  // Not rounded; whole seconds.
};

// Progressive filling by levels, from the deadline back; what does not fit before the deadline is
// taken as early as possible after it. With `first_gpus` > 0 the job has that many from `now` to
// the next change of `free`, whatever its level would be.
ArtifactFill Fill(const ArtifactJob& job, double now, double slot, int cluster_gpus,
                  const ArtifactSteps& free, int first_gpus = 0);

// Earliest deadline first: as many GPUs as the cap allows from now on, or what is free.
ArtifactFill FillGreedily(const ArtifactJob& job, double now, double slot, int cluster_gpus,
                          const ArtifactSteps& free);

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_FILL_H_
