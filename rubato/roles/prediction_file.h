// Lines that are written once each, however often their writer is killed.
//
//     OUT.partial         lines, perhaps more than count
//     OUT.partial.state   whose they are, how many count, and how many bytes these take
//     OUT                 all of them, once there are
#ifndef RUBATO_ROLES_PREDICTION_FILE_H_
#define RUBATO_ROLES_PREDICTION_FILE_H_

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/adapters/files/files.h"

namespace rubato {

class PredictionFile {
 public:
  // Goes on with what an earlier writer of the same `work` left, or begins anew.
  // FAILED_PRECONDITION while another process writes there; ALREADY_EXISTS if there is a file at
  // `path`, unless it is to be replaced or an earlier writer of this work was about to.
  static absl::StatusOr<std::unique_ptr<PredictionFile>> Open(const std::string& path,
                                                              const std::string& work,
                                                              bool replace);

  // Records whose lines are there.
  int64_t records() const { return records_; }
  // The lines of `records` more.
  absl::Status Append(absl::string_view lines, int64_t records);
  // From now on a restart goes on from here, also after a power cut.
  absl::Status Keep();
  // All lines are there: gives the file its name.
  absl::Status Finish();

 private:
  PredictionFile(std::string path, std::string work)
      : path_(std::move(path)), work_(std::move(work)) {}
  std::string partial() const { return path_ + ".partial"; }
  std::string state() const { return path_ + ".partial.state"; }
  // What an earlier writer of the same work said of its lines; null if there was none.
  nlohmann::json Saved() const;
  absl::Status Resume();

  const std::string path_, work_;
  FileDescriptor fd_;
  int64_t records_ = 0;
  int64_t bytes_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_PREDICTION_FILE_H_
