#include "rubato/master/messages.h"

#include <algorithm>

namespace rubato {

absl::string_view RoleName(Role role) {
  switch (role) {
    case Role::kMaster:
      return "master";
    case Role::kServer:
      return "server";
    case Role::kWorker:
      return "worker";
  }
  return "unknown";
}

absl::string_view JobStateName(JobState state) {
  switch (state) {
    case JobState::kStarting:
      return "starting";
    case JobState::kTraining:
      return "training";
    case JobState::kEvaluating:
      return "evaluating";
    case JobState::kStopping:
      return "stopping";
    case JobState::kDone:
      return "done";
    case JobState::kFailed:
      return "failed";
    case JobState::kStopped:
      return "stopped";
  }
  return "unknown";
}

bool Admits(const View& newest, WorkerId worker, int64_t number) {
  return number > newest.number ||
         std::binary_search(newest.workers.begin(), newest.workers.end(), worker);
}

void TimeSpent::Add(const TimeSpent& more) {
  useful += more.useful;
  read += more.read;
  wait += more.wait;
  detect += more.detect;
  rebuild += more.rebuild;
  redo += more.redo;
  checkpoint += more.checkpoint;
  other += more.other;
}

}  // namespace rubato
