#include "rubato/adapters/posix/replica_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/net/buffer.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr absl::Duration kReconnect = absl::Milliseconds(20);

}  // namespace

ReplicaLines::ReplicaLines(ReplicaLinesOptions options, std::function<void()> advanced)
    : options_(std::move(options)), advanced_(std::move(advanced)) {}

void ReplicaLines::Open(const LogSizes& log) {
  {
    MutexLock lock(mu_);
    for (const auto& [segment, bytes] : log) Keep(segment);
    replicas_.Open(log);
  }
  thread_ = std::thread([this] { io_.run(); });
}

void ReplicaLines::Stop() {
  if (!thread_.joinable()) return;
  asio::post(io_, [this] {
    lines_.clear();
    io_.stop();
  });
  thread_.join();
}

// ---- from any thread ----

void ReplicaLines::Keep(int64_t segment) {
  absl::StatusOr<FileDescriptor> file =
      OpenFile(SegmentPath(options_.directory, segment), O_RDONLY);
  if (file.ok()) files_[segment] = std::make_shared<FileDescriptor>(*std::move(file));
}

void ReplicaLines::Grew(int64_t segment, int64_t bytes) {
  {
    MutexLock lock(mu_);
    if (!files_.contains(segment)) Keep(segment);
    replicas_.Grew(segment, bytes);
  }
  Wake();
}

void ReplicaLines::DroppedBefore(int64_t segment) {
  {
    MutexLock lock(mu_);
    replicas_.DroppedBefore(segment);
    files_.erase(files_.begin(), files_.lower_bound(segment));
  }
  Wake();
}

// Many pushes may be written before the thread looks: it is asked once.
void ReplicaLines::Wake() {
  if (woken_.exchange(true)) return;
  asio::post(io_, [this] {
    woken_ = false;
    Look();
  });
}

void ReplicaLines::SetFollower(int64_t follower, std::vector<std::string> addresses) {
  asio::post(io_, [this, follower, addresses = std::move(addresses)]() mutable {
    addresses_ = std::move(addresses);
    {
      MutexLock lock(mu_);
      replicas_.SetFollower(follower);
    }
    Look();
  });
}

bool ReplicaLines::Holds(LogPosition position) {
  MutexLock lock(mu_);
  return position <= replicas_.held();
}

int64_t ReplicaLines::settled() {
  MutexLock lock(mu_);
  return replicas_.settled();
}

int64_t ReplicaLines::follower() {
  MutexLock lock(mu_);
  return replicas_.follower();
}

int64_t ReplicaLines::behind() {
  MutexLock lock(mu_);
  return replicas_.behind();
}

int64_t ReplicaLines::outrun() {
  MutexLock lock(mu_);
  return replicas_.outrun();
}

// ---- on the thread ----

// Opens lines that are wanted, closes those that are not, and sends what there is.
void ReplicaLines::Look() {
  std::vector<int64_t> wanted;
  std::vector<int64_t> anew;  // What such a line has under way is not to be answered any more.
  {
    MutexLock lock(mu_);
    wanted = replicas_.Lines();
    for (const auto& [server, line] : lines_) {
      if (line->greeted() && !replicas_.connected(server)) anew.push_back(server);
    }
  }
  std::erase_if(lines_, [&](const auto& entry) {
    return std::find(wanted.begin(), wanted.end(), entry.first) == wanted.end();
  });
  for (const int64_t server : wanted) {
    std::unique_ptr<ParamsLine>& line = lines_[server];
    if (line == nullptr) line = MakeLine(server);
    const auto at = static_cast<size_t>(server);
    const std::string address = at < addresses_.size() ? addresses_[at] : "";
    if (!address.empty() && address != line->address()) {
      // Where it was nobody is any more; while it is down, the old address is as good as none.
      Call(server, *line, address);
    } else if (std::find(anew.begin(), anew.end(), server) != anew.end()) {
      Call(server, *line, line->address());
    }
    Pump(server, *line);
  }
}

// Events do not look at once: the line that tells of one may have to go.
std::unique_ptr<ParamsLine> ReplicaLines::MakeLine(int64_t server) {
  return std::make_unique<ParamsLine>(
      io_, *options_.links, kReconnect,
      ParamsLineEvents{.greeted = [this, server](const Frame& frame) { Greeted(server, frame); },
                       .answered = [this, server](const Frame& frame) { Answered(server, frame); },
                       .lost = [this, server] { Lost(server); },
                       .refused = [this, server](const absl::Status&) { Lost(server); }});
}

void ReplicaLines::Call(int64_t server, ParamsLine& line, const std::string& address) {
  Lost(server);
  line.Open(address,
            {ParamsOp::kFollow, Encode(FollowRequest{.job = options_.job,
                                                     .follower = server,
                                                     .leader = options_.server,
                                                     .incarnation = options_.incarnation})});
}

void ReplicaLines::Lost(int64_t server) {
  MutexLock lock(mu_);
  replicas_.Lost(server);
}

void ReplicaLines::Greeted(int64_t server, const Frame& frame) {
  absl::StatusOr<LogSizes> there = DecodeLogSizes(frame.body);
  if (!there.ok()) {
    lines_.at(server)->Again();
    return Lost(server);
  }
  {
    MutexLock lock(mu_);
    replicas_.Connected(server, *std::move(there));
  }
  advanced_();
  Wake();
}

void ReplicaLines::Answered(int64_t server, const Frame& frame) {
  if (!frame.status().ok()) {
    lines_.at(server)->Again();
    return Lost(server);
  }
  {
    MutexLock lock(mu_);
    replicas_.Answered(server);
  }
  advanced_();
  Wake();
}

void ReplicaLines::Pump(int64_t server, ParamsLine& line) {
  while (line.greeted()) {
    std::optional<ReplicaOrder> order;
    {
      MutexLock lock(mu_);
      order = replicas_.Next(server);
    }
    if (!order.has_value()) return;
    if (Send(*order, line)) continue;
    line.Again();
    return Lost(server);
  }
}

// False if the log cannot be read: the segment is not there any more.
bool ReplicaLines::Send(const ReplicaOrder& order, ParamsLine& line) {
  auto body = std::make_shared<Buffer>();
  const std::string head = Encode(order);
  body->Append(head.data(), head.size());
  if (order.kind == ReplicaOrder::Kind::kAppend) {
    std::shared_ptr<FileDescriptor> file;
    {
      MutexLock lock(mu_);
      const auto it = files_.find(order.segment);
      if (it != files_.end()) file = it->second;
    }
    if (file == nullptr) return false;
    const auto size = static_cast<size_t>(order.bytes);
    char* bytes = body->Extend(size);
    for (size_t done = 0; done < size;) {
      const ssize_t got =
          pread(file->get(), bytes + done, size - done, order.offset + static_cast<int64_t>(done));
      if (got < 0 && errno == EINTR) continue;
      if (got <= 0) return false;
      done += static_cast<size_t>(got);
    }
    MutexLock lock(mu_);
    if (!files_.contains(order.segment)) return false;  // It may have been written over meanwhile.
  }
  line.Send({.op = static_cast<uint16_t>(ParamsOp::kReplicate), .id = next_id_++}, body->view(),
            body);
  return true;
}

}  // namespace rubato
