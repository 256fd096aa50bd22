// TensorBoard event files, written by hand: a few scalars do not need TensorFlow.
#ifndef RUBATO_ROLES_TENSORBOARD_H_
#define RUBATO_ROLES_TENSORBOARD_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"

namespace rubato {

// One scalar as TensorBoard reads it: a framed record with masked CRC-32C sums around an Event
// message. Exposed so that a test can take it apart.
std::string ScalarRecord(absl::Time now, int64_t step, absl::string_view tag, double value);
// The record every event file must open with.
std::string VersionRecord(absl::Time now);
uint32_t MaskedCrc32c(absl::string_view bytes);

class TensorBoard {
 public:
  // Opens FOLDER/events.out.tfevents.SECONDS.rubato, a new file for every life of the job.
  static absl::StatusOr<TensorBoard> Open(const std::string& folder, absl::Time now);
  void Scalar(absl::Time now, int64_t step, absl::string_view tag, double value);

 private:
  explicit TensorBoard(std::string path) : path_(std::move(path)) {}
  std::string path_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_TENSORBOARD_H_
