#include "rubato/adapters/posix/fetch_log.h"

#include <fcntl.h>

#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;

// One question at a time, and the answer awaited.
class Asker {
 public:
  explicit Asker(absl::Duration patience) : patience_(patience) {}
  ~Asker() {
    if (socket_ != nullptr) socket_->Close();
  }

  absl::Status Dial(const std::string& address) {
    RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
    Expect();
    attempt_ = ConnectTo(io_, parsed, [this](absl::StatusOr<StreamSocket> socket) {
      if (!socket.ok()) return Answer(socket.status());
      socket_ = std::make_shared<FrameSocket>(*std::move(socket), kFrameBytesMax);
      socket_->Start(
          [this](const Frame& frame) {
            Answer(frame.status().ok() ? absl::StatusOr<std::string>(std::string(frame.body))
                                       : frame.status());
          },
          [this](const absl::Status& why) { Answer(why); });
      Answer(std::string());
    });
    return Await().status();
  }
  absl::StatusOr<std::string> Ask(ParamsOp op, const std::string& body) {
    Expect();
    const auto kept = std::make_shared<std::string>(body);
    socket_->Send({.op = static_cast<uint16_t>(op)}, *kept, kept);
    return Await();
  }

 private:
  void Expect() {
    answered_ = false;
    answer_ = absl::UnavailableError("no answer");
  }
  void Answer(absl::StatusOr<std::string> answer) {
    answered_ = true;
    answer_ = std::move(answer);
  }
  absl::StatusOr<std::string> Await() {
    const auto deadline = std::chrono::steady_clock::now() + absl::ToChronoNanoseconds(patience_);
    io_.restart();
    while (!answered_ && io_.run_one_until(deadline) > 0) {
    }
    return answer_;
  }

  const absl::Duration patience_;
  asio::io_context io_;
  std::shared_ptr<void> attempt_;
  std::shared_ptr<FrameSocket> socket_;
  bool answered_ = false;
  absl::StatusOr<std::string> answer_;
};

absl::Status Unavailable(int64_t server, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("the push log is gone, and server ", server,
                   ", which may have a copy, does not answer: ", why.message()));
}

absl::Status Receive(Asker& asker, int64_t segment, int64_t bytes, const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const FileDescriptor file, OpenFile(path, O_WRONLY | O_CREAT | O_TRUNC));
  for (int64_t at = 0; at < bytes;) {
    const ReplicaOrder what = {
        .segment = segment, .offset = at, .bytes = std::min(kReadBytes, bytes - at)};
    RUBATO_ASSIGN_OR_RETURN(const std::string got, asker.Ask(ParamsOp::kReplicaRead, Encode(what)));
    if (got.empty()) return absl::UnavailableError(absl::StrCat("segment ", segment, " is short"));
    RUBATO_RETURN_IF_ERROR(WriteAll(file.get(), got, path));
    at += static_cast<int64_t>(got.size());
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<bool> HasLog(const std::string& directory) {
  RUBATO_RETURN_IF_ERROR(MakeDirectories(directory));
  RUBATO_ASSIGN_OR_RETURN(const LogSizes segments, ListSegments(directory));
  return !segments.empty();
}

absl::StatusOr<LogSizes> FetchLog(const FetchLogOptions& options) {
  std::vector<std::unique_ptr<Asker>> askers;
  std::vector<int64_t> servers;
  std::vector<LogSizes> copies;
  for (const auto& [server, address] : options.others) {
    auto& asker = askers.emplace_back(std::make_unique<Asker>(options.patience));
    absl::Status status = asker->Dial(address);
    absl::StatusOr<std::string> answer =
        status.ok() ? asker->Ask(ParamsOp::kFollow,
                                 Encode(FollowRequest{.job = options.job,
                                                      .follower = server,
                                                      .leader = options.server,
                                                      .incarnation = options.incarnation}))
                    : status;
    if (!answer.ok()) return Unavailable(server, answer.status());
    RUBATO_ASSIGN_OR_RETURN(LogSizes sizes, DecodeLogSizes(*answer));
    copies.push_back(std::move(sizes));
    servers.push_back(server);
  }
  const int64_t longest = LongestCopy(copies);
  if (longest < 0) return LogSizes();
  const auto chosen = static_cast<size_t>(longest);
  const std::string folder = absl::StrCat(options.directory, "/fetched");
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(folder));
  for (const auto& [segment, bytes] : copies[chosen]) {
    const absl::Status status =
        Receive(*askers[chosen], segment, bytes, SegmentPath(folder, segment));
    if (!status.ok()) return Unavailable(servers[chosen], status);
  }
  RUBATO_ASSIGN_OR_RETURN(const LogSizes damaged, ListSegments(options.directory));
  for (const auto& [segment, bytes] : damaged) {
    std::remove(SegmentPath(options.directory, segment).c_str());
  }
  // The last first: if we die on the way, the next life finds that some are missing.
  for (auto it = copies[chosen].rbegin(); it != copies[chosen].rend(); ++it) {
    RUBATO_RETURN_IF_ERROR(
        Publish(SegmentPath(folder, it->first), SegmentPath(options.directory, it->first)));
  }
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  return copies[chosen];
}

}  // namespace rubato
