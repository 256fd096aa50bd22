#include "rubato/adapters/ring/contract.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <set>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr size_t kContractBytesMax = 64 << 10;
constexpr size_t kDifferencesMax = 3;

// False once the time is over.
bool AwaitSocket(const Fd& socket, int16_t events, absl::Time deadline) {
  const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
  pollfd fd{socket.get(), events, 0};
  return left_ms > 0 && poll(&fd, 1, static_cast<int>(left_ms)) > 0;
}

std::map<std::string, std::string> LinesOf(absl::string_view contract) {
  std::map<std::string, std::string> lines;
  for (absl::string_view line : absl::StrSplit(contract, '\n', absl::SkipEmpty())) {
    lines.insert(absl::StrSplit(line, absl::MaxSplits(": ", 1)));
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::string> AskContract(const std::string& address, uint64_t lobby,
                                        absl::Duration timeout) {
  const absl::Time deadline = absl::Now() + timeout;
  const absl::Status nobody = absl::UnavailableError(absl::StrCat("nobody answers at ", address));
  RUBATO_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(address));
  RUBATO_ASSIGN_OR_RETURN(const sockaddr_in to, Resolve(endpoint));
  const Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  connect(fd.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to));
  const EdgeHello hello{EdgeHello::kContract, lobby};
  if (!AwaitSocket(fd, POLLOUT, deadline) ||
      send(fd.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return nobody;
  }
  std::string contract;
  char buffer[4096];
  while (contract.size() <= kContractBytesMax && AwaitSocket(fd, POLLIN, deadline)) {
    const ssize_t n = recv(fd.get(), buffer, sizeof(buffer), MSG_DONTWAIT);
    if (n < 0) break;
    if (n == 0 && !contract.empty()) return contract;
    if (n == 0) break;
    contract.append(buffer, static_cast<size_t>(n));
  }
  return nobody;
}

void TellContract(const Fd& socket, absl::string_view contract) {
  if (send(socket.get(), contract.data(), contract.size(), MSG_NOSIGNAL | MSG_DONTWAIT) < 0) return;
  shutdown(socket.get(), SHUT_WR);
}

absl::Status CompareContracts(absl::string_view mine, absl::string_view theirs,
                              const std::string& address) {
  if (mine == theirs) return absl::OkStatus();
  std::map<std::string, std::string> here = LinesOf(mine), there = LinesOf(theirs);
  std::set<std::string> keys;
  for (const auto& lines : {here, there}) {
    for (const auto& [key, value] : lines) keys.insert(key);
  }
  std::vector<std::string> differences;
  for (const std::string& key : keys) {
    if (here[key] == there[key]) continue;
    differences.push_back(absl::StrCat(key, " is ", here[key].empty() ? "not set" : here[key],
                                       " here and ", there[key].empty() ? "not set" : there[key],
                                       " there"));
  }
  const size_t all = differences.size();
  differences.resize(std::min(all, kDifferencesMax));
  return absl::FailedPreconditionError(absl::StrCat(
      "the group at ", address, " trains something else: ", absl::StrJoin(differences, "; "),
      all > kDifferencesMax ? absl::StrCat("; and ", all - kDifferencesMax, " more") : ""));
}

}  // namespace rubato
