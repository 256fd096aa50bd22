// What is valid in a job file, and yet not what its user may expect of it where a master runs it.
#ifndef RUBATO_JOB_ADVICE_H_
#define RUBATO_JOB_ADVICE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "rubato/job/job_spec.h"

namespace rubato {

// Strategy allreduce: in how many parts a step is dealt to its workers. Enough that every worker
// can have one, unless the job says otherwise; the same for any smaller number of workers.
int64_t MicrobatchesOf(const JobSpec& job);

// INVALID_ARGUMENT for a key that means something to workers without a master alone.
absl::Status CheckForMaster(const JobSpec& job);

// That some workers would have nothing to compute, with both numbers and what helps; empty if all
// have.
std::string IdleWorkersText(const JobSpec& job);

// Why a job may not have so many workers; empty if it may.
std::string WhyNotWorkers(const WorkersSpec& spec, int64_t workers);

}  // namespace rubato

#endif  // RUBATO_JOB_ADVICE_H_
