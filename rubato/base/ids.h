// Ids are types, so that a worker's number cannot be handed to whoever wants a task's.
#ifndef RUBATO_BASE_IDS_H_
#define RUBATO_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>

#include "absl/strings/str_cat.h"

namespace rubato {

// An integer that mixes with no other. `Tag::kPrefix` is how it prints: worker-3.
template <typename Tag>
class Id {
 public:
  constexpr Id() = default;
  constexpr explicit Id(int64_t value) : value_(value) {}

  constexpr int64_t value() const { return value_; }
  constexpr bool valid() const { return value_ >= 0; }
  std::string ToString() const { return absl::StrCat(Tag::kPrefix, "-", value_); }

  friend constexpr auto operator<=>(Id, Id) = default;
  friend std::ostream& operator<<(std::ostream& out, Id id) { return out << id.ToString(); }
  template <typename H>
  friend H AbslHashValue(H h, Id id) {
    return H::combine(std::move(h), id.value_);
  }

 private:
  int64_t value_ = -1;
};

struct WorkerTag {
  static constexpr const char* kPrefix = "worker";
};
struct ServerTag {
  static constexpr const char* kPrefix = "server";
};
struct TaskTag {
  static constexpr const char* kPrefix = "task";
};

// One life of one worker process; never used again, so a name from the past fences itself.
using WorkerId = Id<WorkerTag>;
// A place among the servers, 0 to n-1, that outlives the process holding it.
using ServerId = Id<ServerTag>;
// A range of records of one epoch; unique within a job.
using TaskId = Id<TaskTag>;

}  // namespace rubato

#endif  // RUBATO_BASE_IDS_H_
