// Sums that have no room in memory, in a file that has no name: it is gone with its process,
// however that ends. The training thread owns it.
#ifndef RUBATO_ADAPTERS_RING_SUM_FILE_H_
#define RUBATO_ADAPTERS_RING_SUM_FILE_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/types/span.h"
#include "rubato/adapters/tls/fd.h"

namespace rubato {

class SumFile {
 public:
  // Made in `folder` when it is first needed; empty: where the system keeps temporary files.
  explicit SumFile(std::string folder);

  // Where it is from now on. RESOURCE_EXHAUSTED if there is no room for it, or no file to be had;
  // the message says in which folder.
  absl::StatusOr<int64_t> Append(absl::Span<const float> values);
  absl::Status Read(int64_t at, absl::Span<float> values) const;
  void Clear();  // Gives the space back.
  int64_t bytes() const { return bytes_; }

 private:
  absl::Status Open();
  absl::Status Fail(const char* what) const;

  std::string folder_;
  Fd file_;
  int64_t bytes_ = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_SUM_FILE_H_
