// What the workers of one job must have in common when no master hands the job to them.
#ifndef RUBATO_JOB_CONTRACT_H_
#define RUBATO_JOB_CONTRACT_H_

#include <string>

#include "absl/strings/string_view.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// "key: value" a line, for every key that changes what a step computes. Where files lie, how many
// workers there are and what is done beside training may differ from worker to worker.
std::string TrainingContract(JobSpec spec);

// The same of a features file, line by line, so that the first lines that differ can be told; what
// is too long for that (vocabularies) counts by its hash.
std::string FeaturesContract(absl::string_view features);

}  // namespace rubato

#endif  // RUBATO_JOB_CONTRACT_H_
