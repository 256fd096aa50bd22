#include "rubato/adapters/posix/fetch_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/log_joints.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/status.h"
#include "rubato/params/record_file.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr int64_t kReadBytes = int64_t{1} << 20;

// One question at a time, and the answer awaited.
class Asker {
 public:
  Asker(const FrameLinks& links, absl::Duration patience) : links_(links), patience_(patience) {}
  ~Asker() {
    if (socket_ != nullptr) socket_->Close();
  }

  absl::Status Dial(const std::string& address) {
    RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
    RUBATO_RETURN_IF_ERROR(links_.Check(parsed));
    Expect();
    attempt_ = ConnectTo(io_, parsed, [this, parsed](absl::StatusOr<StreamSocket> socket) {
      if (!socket.ok()) return Answer(socket.status());
      socket_ = links_.Open(*std::move(socket), parsed, TlsSide::kConnects, kFrameBytesMax);
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

  const FrameLinks& links_;
  const absl::Duration patience_;
  asio::io_context io_;
  std::shared_ptr<void> attempt_;
  std::shared_ptr<FrameSocket> socket_;
  bool answered_ = false;
  absl::StatusOr<std::string> answer_;
};

absl::Status Unavailable(int64_t server, const absl::Status& why) {
  return absl::UnavailableError(
      absl::StrCat("server ", server, ", which may have a copy, does not answer: ", why.message()));
}

// What one of the others has.
struct Keeper {
  int64_t server = 0;
  std::unique_ptr<Asker> asker;
};
struct Copies {
  std::unique_ptr<const FrameLinks> links;
  std::vector<Keeper> keepers;
  std::vector<LogSizes> sizes;  // Of each.
};

absl::StatusOr<Copies> AskAll(const FetchLogOptions& options) {
  Copies copies;
  copies.links = std::make_unique<const FrameLinks>(options.secret);
  for (const auto& [server, address] : options.others) {
    auto asker = std::make_unique<Asker>(*copies.links, options.patience);
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
    copies.keepers.push_back({server, std::move(asker)});
    copies.sizes.push_back(std::move(sizes));
  }
  return copies;
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

// What each file is as a segment of the log.
absl::StatusOr<LogSizes> MeasureLog(const std::string& directory) {
  RUBATO_ASSIGN_OR_RETURN(LogSizes segments, ListSegments(directory));
  for (auto& [segment, bytes] : segments) {
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file,
                            MappedFile::Open(SegmentPath(directory, segment)));
    bytes = SkimRecords(file.bytes(), [](RecordKind, absl::string_view) {}).used(file.bytes());
  }
  return segments;
}

// How the log in the file at `path` differs from its copy in the one at `copy`; empty if it does
// not. The file itself may be longer: it was written over an older one.
std::string DifferenceFrom(const std::string& path, const std::string& copy) {
  const absl::StatusOr<MappedFile> own = MappedFile::Open(path), other = MappedFile::Open(copy);
  if (!own.ok()) return std::string(own.status().message());
  const absl::string_view a = own->bytes();
  const int64_t used = SkimRecords(a, [](RecordKind, absl::string_view) {}).used(a);
  if (!other.ok()) {  // A life that had yet to write anything is no loss.
    return used <= static_cast<int64_t>(kFileHeaderBytes) ? "" : path + " is not in the copy";
  }
  const absl::string_view b = other->bytes();
  const size_t both = std::min(a.size(), b.size());
  const auto differs = std::mismatch(a.begin(), a.begin() + both, b.begin()).first;
  const auto at = static_cast<size_t>(differs - a.begin());
  if (at < both) return absl::StrCat(path, ": damaged: other than its copy from byte ", at, " on");
  if (a.size() < b.size()) return absl::StrCat(path, ": ends at byte ", at, ", before its copy");
  if (static_cast<size_t>(used) == b.size()) return "";
  return absl::StrCat(path, ": goes on after byte ", at, ", where its copy ends");
}

// Segments that are as in the copy go, the others are set aside: the copy may turn out to be no
// better. What was wrong with those.
absl::StatusOr<std::vector<std::string>> ClearLog(const std::string& directory,
                                                  const std::string& copy) {
  std::vector<std::string> replaced;
  RUBATO_ASSIGN_OR_RETURN(const LogSizes segments, ListSegments(directory));
  for (const auto& [segment, bytes] : segments) {
    const std::string path = SegmentPath(directory, segment);
    const std::string difference = DifferenceFrom(path, SegmentPath(copy, segment));
    if (!difference.empty()) replaced.push_back(difference);
    if (difference.empty() || rename(path.c_str(), (path + ".damaged").c_str()) != 0) {
      std::remove(path.c_str());
    }
  }
  return replaced;
}

// What makes the log in the folder and its copies one again.
struct Comparison {
  Copies copies;
  LogRepair repair;
  std::vector<std::string> lacks;  // A line for each segment to be taken.
};

absl::StatusOr<Comparison> Compare(const FetchLogOptions& options) {
  Comparison comparison;
  RUBATO_ASSIGN_OR_RETURN(comparison.copies, AskAll(options));
  const Copies& copies = comparison.copies;
  RUBATO_ASSIGN_OR_RETURN(const auto log, MeasureLog(options.directory));
  RUBATO_ASSIGN_OR_RETURN(const auto joints, ReadJoints(options.directory));
  comparison.repair = CompareLog(log, joints, copies.sizes);
  for (const auto& [segment, copy] : comparison.repair.take) {
    const auto own = log.find(segment);
    comparison.lacks.push_back(absl::StrCat(
        SegmentPath(options.directory, segment),
        own == log.end() ? " is missing" : absl::StrCat(" ends at byte ", own->second), "; server ",
        copies.keepers[copy].server, " has ", copies.sizes[copy].at(segment), " bytes of it"));
  }
  return comparison;
}

}  // namespace

absl::StatusOr<bool> HasLog(const std::string& directory) {
  RUBATO_RETURN_IF_ERROR(MakeDirectories(directory));
  RUBATO_ASSIGN_OR_RETURN(const LogSizes segments, ListSegments(directory));
  return !segments.empty();
}

std::string SetAsideDamagedJoints(const std::string& directory) {
  const absl::Status status = ReadJoints(directory).status();
  if (status.ok()) return "";
  const std::string path = JointsPath(directory);
  if (rename(path.c_str(), (path + ".damaged").c_str()) != 0) std::remove(path.c_str());
  return absl::StrCat(status.message(), "; whatever a copy has more counts as lost here");
}

absl::StatusOr<FetchedLog> FetchLog(const FetchLogOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const Copies copies, AskAll(options));
  const int64_t longest = LongestCopy(copies.sizes);
  if (longest < 0) return FetchedLog();
  const auto chosen = static_cast<size_t>(longest);
  const LogSizes& sizes = copies.sizes[chosen];
  const Keeper& keeper = copies.keepers[chosen];
  const std::string folder = absl::StrCat(options.directory, "/fetched");
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(folder));
  for (const auto& [segment, bytes] : sizes) {
    const absl::Status status =
        Receive(*keeper.asker, segment, bytes, SegmentPath(folder, segment));
    if (!status.ok()) return Unavailable(keeper.server, status);
  }
  RUBATO_ASSIGN_OR_RETURN(std::vector<std::string> replaced, ClearLog(options.directory, folder));
  // From here on there is no log until there is one from the copy.
  RUBATO_RETURN_IF_ERROR(AddJoint(options.directory, EndOf(sizes)));
  // The last first: if we die on the way, the next life finds that some are missing.
  for (auto it = sizes.rbegin(); it != sizes.rend(); ++it) {
    const std::string fetched = SegmentPath(folder, it->first);
    RUBATO_RETURN_IF_ERROR(EndCopy(options.directory, it->first, fetched));
    RUBATO_RETURN_IF_ERROR(Publish(fetched, SegmentPath(options.directory, it->first)));
  }
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  return FetchedLog{sizes, keeper.server, std::move(replaced)};
}

absl::StatusOr<std::vector<std::string>> CompareWithCopies(const FetchLogOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const Comparison comparison, Compare(options));
  for (const size_t copy : comparison.repair.forget) {
    const Keeper& keeper = comparison.copies.keepers[copy];
    const absl::StatusOr<std::string> done = keeper.asker->Ask(
        ParamsOp::kReplicate, Encode(ReplicaOrder{.kind = ReplicaOrder::Kind::kForget}));
    if (!done.ok()) return Unavailable(keeper.server, done.status());
  }
  return comparison.lacks;
}

absl::Status TakeFromCopies(const FetchLogOptions& options) {
  RUBATO_ASSIGN_OR_RETURN(const Comparison comparison, Compare(options));
  const std::string folder = absl::StrCat(options.directory, "/fetched");
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  RUBATO_RETURN_IF_ERROR(MakeDirectories(folder));
  // Each replaces one that has less, so we may die between any two of them.
  for (const auto& [segment, copy] : comparison.repair.take) {
    const Keeper& keeper = comparison.copies.keepers[copy];
    const std::string taken = SegmentPath(folder, segment);
    const std::string path = SegmentPath(options.directory, segment);
    const absl::Status status =
        Receive(*keeper.asker, segment, comparison.copies.sizes[copy].at(segment), taken);
    if (!status.ok()) return Unavailable(keeper.server, status);
    RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(taken));
    const absl::Status sound = ReadRecords(path, file.bytes(), [](RecordKind, absl::string_view) {
                                 return absl::OkStatus();
                               }).status();
    RUBATO_RETURN_IF_ERROR(
        Annotate(sound, absl::StrCat("the copy that server ", keeper.server, " has is no better")));
    const std::string aside = path + ".damaged";
    std::remove(aside.c_str());
    if (link(path.c_str(), aside.c_str()) != 0 && errno != ENOENT) {
      return PathError(errno, "link", path);
    }
    RUBATO_RETURN_IF_ERROR(EndCopy(options.directory, segment, taken));
    RUBATO_RETURN_IF_ERROR(Publish(taken, path));
  }
  return RemoveTree(folder);
}

}  // namespace rubato
