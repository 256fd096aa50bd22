#include "rubato/job/advice.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/job/checks.h"

namespace rubato {
namespace {

constexpr int64_t kMicrobatches = 16;  // Unless there are more workers.

}  // namespace

int64_t MicrobatchesOf(const JobSpec& job) {
  int64_t count = job.allreduce.microbatches;
  if (count == 0) count = std::max(kMicrobatches, job.workers.max);
  return std::min(count, job.batch_size);
}

absl::Status CheckForMaster(const JobSpec& job) {
  if (job.strategy != "allreduce" || job.allreduce.quorum == AllreduceSpec().quorum) {
    return absl::OkStatus();
  }
  return Invalid("allreduce.quorum", job.allreduce.quorum,
                 " does nothing where a master runs the job: it asks no quorum, and one worker ",
                 "trains on alone anyway; take it out, or give it to `rubato worker --job`");
}

std::string IdleWorkersText(const JobSpec& job) {
  if (job.strategy != "allreduce" || job.workers.max <= MicrobatchesOf(job)) return "";
  const int64_t parts = MicrobatchesOf(job);
  // More parts than records there cannot be.
  const bool few = job.allreduce.microbatches > 0;
  const bool small = job.workers.max > job.batch_size;
  const char* const more = !few    ? "batch_size"
                           : small ? "batch_size and allreduce.microbatches"
                                   : "allreduce.microbatches";
  return absl::StrCat("workers.max is ", job.workers.max, ", but a step has ", parts,
                      parts == 1 ? " part" : " parts", " to compute (",
                      few ? "allreduce.microbatches" : "batch_size", "): with more than ", parts,
                      " workers the others idle; set ", more, ": ", job.workers.max,
                      " or more, or workers.max: ", parts);
}

std::string WhyNotWorkers(const WorkersSpec& spec, int64_t workers) {
  if (workers >= spec.min && workers <= spec.max) return "";
  return absl::StrCat(workers, " workers are outside what the job allows: workers.min is ",
                      spec.min, ", workers.max ", spec.max,
                      workers > spec.max ? "; stop the job and go on with `rubato train --resume "
                                           "JOBDIR --workers N`, which raises it"
                                         : "");
}

}  // namespace rubato
