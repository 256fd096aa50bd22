// What the workers of one job must have in common when no master hands the job to them.
#ifndef RUBATO_JOB_CONTRACT_H_
#define RUBATO_JOB_CONTRACT_H_

#include <string>

#include "rubato/job/job_spec.h"

namespace rubato {

// "key: value" a line, for every key that changes what a step computes. Where files lie, how many
// workers there are and what is done beside training may differ from worker to worker.
std::string TrainingContract(JobSpec spec);

}  // namespace rubato

#endif  // RUBATO_JOB_CONTRACT_H_
