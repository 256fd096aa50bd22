#include "rubato/adapters/ring/lobby.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/contract.h"

namespace rubato {
namespace {

constexpr int kRefusalsMax = 3;  // Another may have had that address for a moment.

}  // namespace

absl::Status Lobby::Ask(absl::Time now) {
  if (known_ || now < ask_again_) return absl::OkStatus();
  ask_again_ = now + absl::Seconds(1);
  for (const std::string& address : options_.join) {
    const absl::StatusOr<std::string> theirs =
        AskContract(address, options_.key, options_.tls, options_.patience, *options_.names);
    if (!theirs.ok()) {
      unanswered_ = absl::StrCat("; ", std::string(theirs.status().message()));
      refused_ = absl::IsPermissionDenied(theirs.status()) ? refused_ + 1 : 0;
      if (refused_ == kRefusalsMax) return absl::FailedPreconditionError(theirs.status().message());
      continue;
    }
    unanswered_.clear();
    known_ = *theirs == options_.contract;
    return CompareContracts(options_.contract, *theirs, address);
  }
  return absl::OkStatus();
}

std::string Lobby::Why() const {
  if (!unanswered_.empty() || options_.join.empty()) return unanswered_;
  return absl::StrCat("; the group at ", absl::StrJoin(options_.join, ", "),
                      " answers, and has yet to let this member in");
}

}  // namespace rubato
