// A question to the master of a running job, patient enough to outlast its restart.
#ifndef RUBATO_CLI_ASK_MASTER_H_
#define RUBATO_CLI_ASK_MASTER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/grpc/master_client.h"
#include "rubato/base/status.h"
#include "rubato/roles/job_directory.h"

namespace rubato {

template <typename Reply>
absl::StatusOr<Reply> AskMaster(
    const std::string& job_dir,
    const std::function<absl::StatusOr<Reply>(MasterClient&)>& question) {
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(job_dir));
  const absl::Time until = absl::Now() + absl::Seconds(5);
  std::unique_ptr<MasterClient> client;
  while (true) {
    const absl::StatusOr<std::string> address = directory.MasterAddress();
    absl::Status status = address.status();
    if (status.ok()) {
      if (client == nullptr) client = MasterClient::Dial(*address);
      const absl::StatusOr<Reply> reply = question(*client);
      if (reply.ok()) return reply;
      status = Annotate(reply.status(), absl::StrCat(job_dir, ": its master does not answer"));
    }
    if (absl::IsFailedPrecondition(status) || absl::Now() > until) return status;
    absl::SleepFor(absl::Milliseconds(50));
  }
}

}  // namespace rubato

#endif  // RUBATO_CLI_ASK_MASTER_H_
