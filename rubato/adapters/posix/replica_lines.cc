#include "rubato/adapters/posix/replica_lines.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <utility>

#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/net/buffer.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr auto kReconnect = std::chrono::milliseconds(20);

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
    for (auto& [server, line] : lines_) Drop(line);
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

// ---- on the thread ----

// Opens lines that are wanted, closes those that are not, and sends what there is.
void ReplicaLines::Look() {
  std::vector<int64_t> wanted;
  {
    MutexLock lock(mu_);
    wanted = replicas_.Lines();
    for (auto& [server, line] : lines_) {
      if (line.greeted && !replicas_.connected(server)) Drop(line);
    }
  }
  for (auto it = lines_.begin(); it != lines_.end();) {
    const bool keep = std::find(wanted.begin(), wanted.end(), it->first) != wanted.end();
    if (!keep) Drop(it->second);
    it = keep ? std::next(it) : lines_.erase(it);
  }
  for (const int64_t server : wanted) {
    Line& line = lines_[server];
    const auto at = static_cast<size_t>(server);
    const std::string address = at < addresses_.size() ? addresses_[at] : "";
    if (!address.empty() && address != line.address) {
      // Where it was nobody is any more; while it is down, the old address is as good as none.
      line.address = address;
      if (line.socket != nullptr) {
        Lost(server, line.life);
        continue;
      }
      Drop(line);
    }
    if (line.socket == nullptr && line.attempt == nullptr && line.timer == nullptr) {
      Connect(server, line);
    }
    Pump(server, line);
  }
}

void ReplicaLines::Drop(Line& line) {
  ++line.life;
  line.timer.reset();
  line.attempt.reset();
  if (line.socket != nullptr) line.socket->Close();
  line.socket.reset();
  line.greeted = false;
}

void ReplicaLines::Lost(int64_t server, int64_t life) {
  const auto it = lines_.find(server);
  if (it == lines_.end() || it->second.life != life) return;
  Drop(it->second);
  {
    MutexLock lock(mu_);
    replicas_.Lost(server);
  }
  it->second.timer = std::make_unique<asio::steady_timer>(io_, kReconnect);
  it->second.timer->async_wait(
      [this, server, waiting = it->second.life](const asio::error_code& error) {
        const auto line = lines_.find(server);
        if (error || line == lines_.end() || line->second.life != waiting) return;
        line->second.timer.reset();
        Look();
      });
}

void ReplicaLines::Connect(int64_t server, Line& line) {
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(line.address);
  if (line.address.empty() || !address.ok()) return;
  line.attempt = ConnectTo(io_, *address,
                           [this, server, life = line.life](absl::StatusOr<StreamSocket> socket) {
                             if (!socket.ok()) return Lost(server, life);
                             Greet(server, life, *std::move(socket));
                           });
}

void ReplicaLines::Greet(int64_t server, int64_t life, StreamSocket socket) {
  const auto it = lines_.find(server);
  if (it == lines_.end() || it->second.life != life) return;
  Line& line = it->second;
  line.socket = std::make_shared<FrameSocket>(std::move(socket), kFrameBytesMax);
  line.socket->Start([this, server, life](const Frame& frame) { Take(server, life, frame); },
                     [this, server, life](const absl::Status&) { Lost(server, life); });
  const auto body =
      std::make_shared<std::string>(Encode(FollowRequest{.job = options_.job,
                                                         .follower = server,
                                                         .leader = options_.server,
                                                         .incarnation = options_.incarnation}));
  line.socket->Send({.op = static_cast<uint16_t>(ParamsOp::kFollow)}, *body, body);
}

void ReplicaLines::Take(int64_t server, int64_t life, const Frame& frame) {
  const auto it = lines_.find(server);
  if (it == lines_.end() || it->second.life != life) return;
  if (!frame.status().ok()) return Lost(server, life);
  if (it->second.greeted) {
    MutexLock lock(mu_);
    replicas_.Answered(server);
  } else {
    absl::StatusOr<LogSizes> there = DecodeLogSizes(frame.body);
    if (!there.ok()) return Lost(server, life);
    it->second.greeted = true;
    MutexLock lock(mu_);
    replicas_.Connected(server, *std::move(there));
  }
  advanced_();
  Look();
}

void ReplicaLines::Pump(int64_t server, Line& line) {
  const int64_t life = line.life;
  while (line.greeted) {
    std::optional<ReplicaOrder> order;
    {
      MutexLock lock(mu_);
      order = replicas_.Next(server);
    }
    if (!order.has_value()) return;
    if (!Send(*order, line)) return Lost(server, life);
  }
}

// False if the log cannot be read: the file is not there any more.
bool ReplicaLines::Send(const ReplicaOrder& order, Line& line) {
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
  }
  line.socket->Send({.op = static_cast<uint16_t>(ParamsOp::kReplicate), .id = next_id_++},
                    body->view(), body);
  return true;
}

}  // namespace rubato
