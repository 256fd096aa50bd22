// The maker of every policy, each in the file of its name, and what some of them share.
#ifndef RUBATO_SCHEDULE_POLICIES_H_
#define RUBATO_SCHEDULE_POLICIES_H_

#include <memory>

#include "rubato/schedule/policy.h"

namespace rubato {

std::unique_ptr<Policy> MakeFifo();
std::unique_ptr<Policy> MakeFifoElastic();
std::unique_ptr<Policy> MakeEdf();
std::unique_ptr<Policy> MakeEdfCapped();
std::unique_ptr<Policy> MakeEdfAdmission();
std::unique_ptr<Policy> MakeEdfCappedAdmission();
std::unique_ptr<Policy> MakeTiresias();
std::unique_ptr<Policy> MakeGandiva();
std::unique_ptr<Policy> MakeThemis();
std::unique_ptr<Policy> MakeChronus();
std::unique_ptr<Policy> MakeOptimus();
std::unique_ptr<Policy> MakePollux();
std::unique_ptr<Policy> MakeElasticflow();
std::unique_ptr<Policy> MakeElasticflowArtifact();
std::unique_ptr<Policy> MakeRubato();

// How wide the public code's rigid and EDF baselines go: the largest profiled count, at most 64
// and at most the global batch.
int WidestGpus(const JobView& job, int pool);

// The pool a job is in, or where it could run fastest.
int HomePool(const JobView& job);

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_POLICIES_H_
