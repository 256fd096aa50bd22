#include "rubato/adapters/ring/contract.h"

#include <poll.h>
#include <sys/socket.h>

#include <algorithm>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
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
constexpr absl::string_view kNoRoom = "room: none\n";

// False once the time is over.
bool AwaitSocket(int socket, int16_t events, absl::Time deadline) {
  const int64_t left_ms = absl::ToInt64Milliseconds(deadline - absl::Now());
  pollfd fd{socket, events, 0};
  return left_ms > 0 && poll(&fd, 1, static_cast<int>(left_ms)) > 0;
}

// Until all is sent; false if the other end or the time is gone first.
bool Say(Stream& stream, const EdgeHello& hello, absl::Time deadline) {
  size_t sent = 0;
  while (sent < sizeof(hello)) {
    const int64_t n =
        stream.WriteBytes(reinterpret_cast<const char*>(&hello) + sent, sizeof(hello) - sent);
    if (n < 0) return false;
    if (n == Stream::kWait && !AwaitSocket(stream.fd(), stream.wants(), deadline)) return false;
    sent += static_cast<size_t>(n);
  }
  while (!stream.Flush()) {
    if (!AwaitSocket(stream.fd(), POLLOUT, deadline)) return false;
  }
  return true;
}

// All that comes until the other end is closed, if that was said and not cut off.
std::optional<std::string> Hear(Stream& stream, absl::Time deadline) {
  std::string text;
  char buffer[4096];
  while (text.size() <= kContractBytesMax) {
    const int64_t n = stream.ReadBytes(buffer, sizeof(buffer));
    if (n == Stream::kClosed) return text;
    if (n == Stream::kBroken) break;
    if (n == Stream::kWait && !AwaitSocket(stream.fd(), stream.wants(), deadline)) break;
    text.append(buffer, static_cast<size_t>(n));
  }
  return std::nullopt;
}

// Whether it is what TLS says to those who do not speak it.
bool IsTlsAlert(absl::string_view text) { return absl::StartsWith(text, "\x15\x03"); }

std::map<std::string, std::string> LinesOf(absl::string_view contract) {
  std::map<std::string, std::string> lines;
  for (absl::string_view line : absl::StrSplit(contract, '\n', absl::SkipEmpty())) {
    lines.insert(absl::StrSplit(line, absl::MaxSplits(": ", 1)));
  }
  return lines;
}

}  // namespace

absl::StatusOr<std::string> AskContract(const std::string& address, uint64_t lobby,
                                        const TlsLinks* tls, absl::Duration timeout,
                                        Resolver& names) {
  const absl::Time deadline = absl::Now() + timeout;
  const absl::Status nobody = absl::UnavailableError(
      absl::StrCat("nobody answers at ", address,
                   ": start a member there, or join the address that one prints"));
  RUBATO_RETURN_IF_ERROR(ParseEndpoint(address).status());
  const std::optional<sockaddr_in> to =
      names.Await(address, [&] { return absl::Now() < deadline; });
  if (!to) {
    return absl::UnavailableError(
        absl::StrCat("nobody says where ", address, " is: check the name, or give a number"));
  }
  Fd fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  connect(fd.get(), reinterpret_cast<const sockaddr*>(&*to), sizeof(*to));
  if (!AwaitSocket(fd.get(), POLLOUT, deadline)) return nobody;
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(fd.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return nobody;
  const std::unique_ptr<Stream> stream = MakeStream(tls, TlsSide::kConnects, std::move(fd));
  std::optional<std::string> contract;
  if (Say(*stream, {EdgeHello::kContract, lobby}, deadline)) contract = Hear(*stream, deadline);
  if (tls == nullptr && contract && IsTlsAlert(*contract)) {
    return absl::PermissionDeniedError(
        absl::StrCat("the member at ", address,
                     " encrypts and this one does not: check --secret-file and allreduce.encrypt"));
  }
  if (stream->stranger()) {
    return absl::PermissionDeniedError(absl::StrCat("the member at ", address,
                                                    " does not speak TLS, or knows another secret: "
                                                    "check --secret-file and allreduce.encrypt"));
  }
  if (contract && !contract->empty()) return *contract;
  if (!stream->gone()) return nobody;
  // In plain sight a secret can only be compared, and nothing is said to whoever has another.
  return absl::UnavailableError(absl::StrCat("the member at ", address,
                                             " hangs up without a word; it may be short of files",
                                             tls == nullptr ? ", or know another secret" : ""));
}

void TellContract(Stream& stream, const std::string& mine, bool full) {
  const std::string answer = absl::StrCat(mine, full ? kNoRoom : "");
  absl::string_view contract = answer;
  int64_t n = 1;
  while (n > 0 && !contract.empty()) {
    n = stream.WriteBytes(contract.data(), contract.size());
    if (n > 0) contract.remove_prefix(static_cast<size_t>(n));
  }
  stream.Finish();
}

bool TakeFull(std::string& answer) {
  if (!absl::EndsWith(answer, kNoRoom)) return false;
  answer.resize(answer.size() - kNoRoom.size());
  return true;
}

void TellPlain(Stream& stream, absl::string_view greeting) {
  if (!absl::StartsWith(greeting, "\x16\x03")) return;
  // What is left unread when a socket is closed takes with it what was said last.
  char rest[4096];
  while (stream.ReadBytes(rest, sizeof(rest)) > 0) {
  }
  stream.WriteBytes(kNotUnderstood.data(), kNotUnderstood.size());
  stream.Finish();
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
