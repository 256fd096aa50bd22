#include "rubato/adapters/ring/lobby.h"

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/membership/member.h"

namespace rubato {
namespace {

constexpr int kRefusalsMax = 3;  // Another may have had that address for a moment.
constexpr int kFullMax = 3;      // One may be gone, and be missed in a moment.
// One that is known is asked for room alone.
constexpr absl::Duration kAskAgain = absl::Seconds(1), kAskForRoom = absl::Seconds(5);

constexpr absl::Duration kUnheard = absl::Seconds(3);

std::string NoRoom(const std::string& address) {
  return absl::StrCat(
      "the group at ", address, " has ", kMembersMax,
      " members, as many as a group can have: start this one when another has left");
}

}  // namespace

absl::Status Lobby::Ask(absl::Time now) {
  if (options_.join.empty() || now < ask_again_) return absl::OkStatus();
  ask_again_ = now + kAskAgain;
  for (const std::string& address : options_.join) {
    absl::StatusOr<std::string> theirs =
        AskContract(address, options_.key, options_.tls, options_.patience, *options_.names);
    if (!theirs.ok()) {
      unanswered_ = absl::StrCat("; ", std::string(theirs.status().message()));
      refused_ = absl::IsPermissionDenied(theirs.status()) ? refused_ + 1 : 0;
      if (refused_ == kRefusalsMax && !known_)
        return absl::FailedPreconditionError(theirs.status().message());
      continue;
    }
    unanswered_.clear();
    const bool full = TakeFull(*theirs);
    const absl::Status same = CompareContracts(options_.contract, *theirs, address);
    if (!same.ok()) return known_ ? absl::OkStatus() : same;  // Another is there by now.
    known_ = true;
    full_ = full ? full_ + 1 : 0;
    if (full_ > 0) unanswered_ = absl::StrCat("; ", NoRoom(address));
    if (full_ == kFullMax) return absl::FailedPreconditionError(NoRoom(address));
    if (!full) ask_again_ = now + kAskForRoom;
    return absl::OkStatus();
  }
  return absl::OkStatus();
}

// Other newcomers answer too.
std::string Lobby::Why(absl::Duration unheard) const {
  if (!unanswered_.empty() || options_.join.empty()) return unanswered_;
  if (unheard >= kUnheard) {
    return absl::StrCat("; whoever answers at ", absl::StrJoin(options_.join, ", "),
                        " waits to be let in as well: nobody who has the state was heard of for ",
                        absl::FormatDuration(absl::Trunc(unheard, absl::Seconds(1))));
  }
  return absl::StrCat("; the group at ", absl::StrJoin(options_.join, ", "),
                      " answers, and has yet to let this member in");
}

}  // namespace rubato
