#include "rubato/adapters/posix/replica_vault.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int64_t kReadBytesMax = int64_t{4} << 20;

}  // namespace

std::string ReplicaVault::Folder(int64_t leader) const {
  return absl::StrCat(options_.directory, "/of-", leader);
}

int64_t ReplicaVault::NextLine() {
  MutexLock lock(mu_);
  return ++lines_;
}

absl::StatusOr<LogSizes> ReplicaVault::Follow(const FollowRequest& request, int64_t line) {
  if (request.job != options_.job || request.follower != options_.server) {
    return absl::FailedPreconditionError(
        absl::StrFormat("server %d of job '%s', not server %d of '%s'", options_.server,
                        options_.job, request.follower, request.job));
  }
  MutexLock lock(mu_);
  auto copy = copies_.find(request.leader);
  if (copy == copies_.end()) {
    RUBATO_RETURN_IF_ERROR(MakeDirectories(Folder(request.leader)));
    RUBATO_ASSIGN_OR_RETURN(LogSizes sizes, ListSegments(Folder(request.leader)));
    copy = copies_.emplace(request.leader, Copy{.state = ReplicaCopy(std::move(sizes))}).first;
  }
  RUBATO_RETURN_IF_ERROR(copy->second.state.Follow(request.incarnation, line));
  return copy->second.state.sizes();
}

absl::Status ReplicaVault::Write(Copy& copy, int64_t leader, const ReplicaOrder& order,
                                 absl::string_view bytes) {
  const std::string path = SegmentPath(Folder(leader), order.segment);
  if (copy.segment != order.segment) {
    RUBATO_ASSIGN_OR_RETURN(copy.file, OpenFile(path, O_RDWR | O_CREAT));
    copy.segment = order.segment;
  }
  for (size_t done = 0; done < bytes.size();) {
    const ssize_t written = pwrite(copy.file.get(), bytes.data() + done, bytes.size() - done,
                                   order.offset + static_cast<int64_t>(done));
    if (written < 0 && errno == EINTR) continue;
    if (written < 0) {
      const absl::Status status = PathError(errno, "write", path);
      return ftruncate(copy.file.get(), order.offset) == 0 ? status
                                                           : PathError(errno, "write", path);
    }
    done += static_cast<size_t>(written);
  }
  return absl::OkStatus();
}

absl::Status ReplicaVault::Take(int64_t leader, int64_t line, absl::string_view body) {
  RUBATO_ASSIGN_OR_RETURN(const ReplicaOrder order, DecodeReplicaOrder(body));
  const absl::string_view bytes = body.substr(kReplicaOrderBytes);
  const bool appends = order.kind == ReplicaOrder::Kind::kAppend;
  if (bytes.size() != (appends ? static_cast<uint64_t>(order.bytes) : 0)) {
    return absl::InvalidArgumentError("an order for a copy with other bytes than it says");
  }
  MutexLock lock(mu_);
  const auto copy = copies_.find(leader);
  if (copy == copies_.end()) return absl::FailedPreconditionError("nobody leads on this line");
  RUBATO_RETURN_IF_ERROR(copy->second.state.Check(line, order));
  if (appends) RUBATO_RETURN_IF_ERROR(Write(copy->second, leader, order, bytes));
  for (const int64_t segment : copy->second.state.Done(order)) {
    std::remove(SegmentPath(Folder(leader), segment).c_str());
    if (copy->second.segment == segment) copy->second.segment = -1;
  }
  return absl::OkStatus();
}

absl::StatusOr<std::string> ReplicaVault::Read(int64_t leader, int64_t line,
                                               absl::string_view body) {
  RUBATO_ASSIGN_OR_RETURN(const ReplicaOrder what, DecodeReplicaOrder(body));
  MutexLock lock(mu_);
  const auto copy = copies_.find(leader);
  if (copy == copies_.end() || !copy->second.state.Listens(line)) {
    return absl::AbortedError("another line has taken over this copy");
  }
  const std::string path = SegmentPath(Folder(leader), what.segment);
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_RDONLY));
  std::string bytes(static_cast<size_t>(std::min(what.bytes, kReadBytesMax)), '\0');
  const ssize_t got = pread(file.get(), bytes.data(), bytes.size(), what.offset);
  if (got < 0) return PathError(errno, "read", path);
  bytes.resize(static_cast<size_t>(got));
  return bytes;
}

int64_t ReplicaVault::bytes() {
  MutexLock lock(mu_);
  int64_t bytes = 0;
  for (const auto& [leader, copy] : copies_) {
    for (const auto& [segment, size] : copy.state.sizes()) bytes += size;
  }
  return bytes;
}

absl::StatusOr<std::string> VaultLine::Answer(ReplicaVault& vault, ParamsOp op,
                                              absl::string_view body) {
  if (op == ParamsOp::kReplicate) {
    RUBATO_RETURN_IF_ERROR(vault.Take(leader_, line_, body));
    return "";
  }
  if (op == ParamsOp::kReplicaRead) return vault.Read(leader_, line_, body);
  RUBATO_ASSIGN_OR_RETURN(const FollowRequest request, DecodeFollow(body));
  const int64_t line = vault.NextLine();
  RUBATO_ASSIGN_OR_RETURN(const LogSizes sizes, vault.Follow(request, line));
  leader_ = request.leader;
  line_ = line;
  return Encode(sizes);
}

}  // namespace rubato
