// A job's number on its cluster: jobs are numbered as they arrive, so the order of ids is the
// order of submission.
#ifndef RUBATO_CLUSTER_JOB_ID_H_
#define RUBATO_CLUSTER_JOB_ID_H_

#include "rubato/base/ids.h"

namespace rubato {

struct ScheduledJobTag {
  static constexpr const char* kPrefix = "job";
};
using JobId = Id<ScheduledJobTag>;

}  // namespace rubato

#endif  // RUBATO_CLUSTER_JOB_ID_H_
