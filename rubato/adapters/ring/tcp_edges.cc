#include "rubato/adapters/ring/tcp_edges.h"

#include <netinet/tcp.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/uio.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>

#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;
constexpr int kLocalBufferBytes = 1 << 20;

constexpr absl::Duration kRefusalTime = absl::Milliseconds(50);

absl::Status Aborted() { return absl::AbortedError("the view has ended"); }

// Whether both ends of a connection are on this machine.
bool IsLocal(int socket) {
  sockaddr_in here{}, there{};
  socklen_t length = sizeof(here);
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&here), &length) != 0) return false;
  length = sizeof(there);
  if (getpeername(socket, reinterpret_cast<sockaddr*>(&there), &length) != 0) return false;
  return here.sin_addr.s_addr == there.sin_addr.s_addr;
}

// For a socket that is connected.
void Tune(int socket) {
  const int on = 1;
  setsockopt(socket, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  // To another machine, congestion and buffers are the kernel's matter, which may grow these past
  // what a process may ask for. Within one nothing is ever congested, but some controls (BBR) pace
  // their packets all the same: 64 MB over two processes take 76 ms with it, 62 without, and 55
  // when the buffers need not grow first.
  if (!IsLocal(socket)) return;
  setsockopt(socket, IPPROTO_TCP, TCP_CONGESTION, "reno", 4);
  for (const int buffer : {SO_SNDBUF, SO_RCVBUF}) {
    setsockopt(socket, SOL_SOCKET, buffer, &kLocalBufferBytes, sizeof(kLocalBufferBytes));
  }
}

// What goes through a socket in one call.
class Pieces {
 public:
  void Add(void* data, size_t bytes) { all_[count_++] = {data, bytes}; }
  // All but the first `done` bytes.
  msghdr After(uint64_t done) {
    size_t first = 0;
    while (first < count_ && done >= all_[first].iov_len) done -= all_[first++].iov_len;
    if (first < count_) {
      all_[first].iov_base = static_cast<char*>(all_[first].iov_base) + done;
      all_[first].iov_len -= done;
    }
    msghdr message{};
    message.msg_iov = all_ + first;
    message.msg_iovlen = count_ - first;
    return message;
  }

 private:
  iovec all_[4];
  size_t count_ = 0;
};

bool WouldBlock() { return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINTR; }

// Whether the other end, which never sends anything, is gone.
bool IsClosed(int socket) {
  char byte;
  const ssize_t n = recv(socket, &byte, 1, MSG_PEEK | MSG_DONTWAIT);
  return n == 0 || (n < 0 && !WouldBlock());
}

}  // namespace

struct TcpEdges::Operation {
  absl::Span<float> values;
  WireFormat format = WireFormat::kFp32;
  std::vector<float>* speeds = nullptr;  // Of all, by rank, as far as heard; every frame has them.
  std::vector<SendItem> sends;
  std::vector<ReceiveItem> receives;
  size_t sent = 0;
  size_t received = 0;
  // The frame under way.
  Frame frame;
  std::vector<float> told;  // The speeds in it.
  const char* payload = nullptr;
  uint64_t frame_sent = 0;  // Header, speeds, payload and the word together.
  int blocked_out = -1;     // Sockets that a poll should wait for.
  int blocked_in = -1;
};

TcpEdges::TcpEdges(const Attention& attention, uint64_t group,
                   std::function<void(MemberId, bool)> lost)
    : attention_(attention),
      group_(group),
      lost_(std::move(lost)),
      arrived_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

TcpEdges::~TcpEdges() = default;

void TcpEdges::Arrive(MemberId member, MemberId to, Fd socket) {
  Tune(socket.get());
  MutexLock lock(mu_);
  arrivals_[{member, to}] = std::move(socket);
  has_arrivals_ = true;
  const uint64_t one = 1;
  if (write(arrived_fd_.get(), &one, sizeof(one)) < 0) return;  // Full means signalled already.
}

absl::Status TcpEdges::Enter(const GroupView& view, int rank, MemberId self) {
  // Connections are between two lives: what the last one had open, its peers have closed or will.
  if (self != self_) {
    out_.clear();
    in_.clear();
  }
  view_ = view;
  rank_ = rank;
  self_ = self;
  mark_ = static_cast<uint32_t>(view.Mark());
  operation_ = 0;
  std::erase_if(out_, [&](const auto& edge) {
    return !view.Contains(edge.first) || IsClosed(edge.second.socket.get());
  });
  std::erase_if(in_, [&](const auto& edge) { return !view.Contains(edge.first); });
  return absl::OkStatus();
}

absl::Status TcpEdges::Allreduce(absl::Span<float> values, WireFormat format) {
  return Reduce(values, format, nullptr);
}

absl::Status TcpEdges::AllreduceAndTell(absl::Span<float> values, WireFormat format, float speed,
                                        std::vector<float>& speeds) {
  std::vector<float> heard(view_.size(), 0.0f);
  heard[rank_] = speed;
  RUBATO_RETURN_IF_ERROR(Reduce(values, format, &heard));
  speeds = std::move(heard);
  return absl::OkStatus();
}

absl::Status TcpEdges::Reduce(absl::Span<float> values, WireFormat format,
                              std::vector<float>* speeds) {
  const int64_t elements = static_cast<int64_t>(values.size());
  const int wire = WireBytes(format);
  Operation operation{values, format, speeds};
  Chunk(MakePlan(ChooseAlgorithm(elements * wire, view_.size()), rank_, view_.size(), elements),
        kChunkBytes / wire, operation.sends, operation.receives);
  return Run(operation);
}

absl::Status TcpEdges::Vote(int64_t step, float speed, std::vector<float>& speeds) {
  // Up the tree and down again: whoever has the sum knows that everyone has called.
  speeds.assign(view_.size(), 0.0f);
  speeds[rank_] = speed;
  Operation operation{absl::MakeSpan(speeds), WireFormat::kFp32};
  Chunk(MakePlan(Algorithm::kTree, rank_, view_.size(), view_.size()), kChunkBytes, operation.sends,
        operation.receives);
  return Run(operation);
}

absl::Status TcpEdges::Broadcast(absl::Span<char> bytes, int root) {
  std::vector<float> words((bytes.size() + 3) / 4);
  if (rank_ == root) std::memcpy(words.data(), bytes.data(), bytes.size());
  const int size = view_.size();
  const int place = (rank_ - root + size) % size;  // In the tree whose root is `root`.
  const auto rank_of = [&](int p) { return (p + root) % size; };
  Operation operation{absl::MakeSpan(words), WireFormat::kFp32};
  const int64_t chunk = kChunkBytes / 4;
  for (int64_t begin = 0; begin < static_cast<int64_t>(words.size()); begin += chunk) {
    const Slice slice{begin, std::min<int64_t>(begin + chunk, words.size())};
    if (place > 0) operation.receives.push_back({rank_of(TreeParent(place)), slice, false});
    for (int child : TreeChildren(place, size)) {
      operation.sends.push_back({rank_of(child), slice, true, operation.receives.size()});
    }
  }
  RUBATO_RETURN_IF_ERROR(Run(operation));
  if (rank_ != root) std::memcpy(bytes.data(), words.data(), bytes.size());
  return absl::OkStatus();
}

// All slices are cut into the same number of chunks, so that both ends count alike. A chunk may
// leave when the last chunk that falls on it has come in; an empty one when all have, so that even
// a sum of nothing says that everyone has come.
void TcpEdges::Chunk(const std::vector<Exchange>& plan, int64_t chunk, std::vector<SendItem>& sends,
                     std::vector<ReceiveItem>& receives) {
  int64_t longest = 1;
  for (const Exchange& stage : plan) {
    longest = std::max({longest, stage.send.size(), stage.receive.size()});
  }
  const int count = static_cast<int>((longest + chunk - 1) / chunk);
  const auto part = [&](const Slice& slice, int index) {
    const Slice cut = CutSlice(slice.size(), count, index);
    return Slice{slice.begin + cut.begin, slice.begin + cut.end};
  };
  for (const Exchange& stage : plan) {
    const size_t before = receives.size();
    for (int c = 0; c < count; ++c) {
      if (stage.send_to >= 0) {
        const Slice slice = part(stage.send, c);
        size_t needs = before;
        const auto misses = [&](const Slice& other) {
          return slice.size() > 0 && (other.end <= slice.begin || slice.end <= other.begin);
        };
        while (needs > 0 && misses(receives[needs - 1].slice)) --needs;
        sends.push_back({stage.send_to, slice, !stage.reduce, needs});
      }
      if (stage.receive_from >= 0) {
        receives.push_back({stage.receive_from, part(stage.receive, c), stage.reduce});
      }
    }
  }
}

absl::Status TcpEdges::Run(Operation& operation) {
  const absl::Status status = Complete(operation);
  // A frame that was cut off is filled up before the next one to the same member.
  if (operation.frame_sent > 0) {
    const auto out = out_.find(view_.members[operation.sends[operation.sent].to].id);
    if (out != out_.end()) {
      out->second.cut = operation.frame;
      out->second.cut_sent = operation.frame_sent;
    }
  }
  return status;
}

absl::Status TcpEdges::Complete(Operation& operation) {
  ++operation_;
  while (operation.sent < operation.sends.size() ||
         operation.received < operation.receives.size()) {
    RUBATO_ASSIGN_OR_RETURN(const bool received, TryReceive(operation));
    RUBATO_ASSIGN_OR_RETURN(const bool sent, TrySend(operation));
    if (!received && !sent) RUBATO_RETURN_IF_ERROR(Wait(operation));
  }
  return absl::OkStatus();
}

absl::Status TcpEdges::Wait(const Operation& operation) {
  polls_ = {{attention_.event_fd, POLLIN, 0},
            {arrived_fd_.get(), POLLIN, 0},
            {operation.blocked_out, POLLOUT, 0},
            {operation.blocked_in, POLLIN, 0}};
  // What was sent to an end that has been closed since, nobody answers.
  const size_t others = polls_.size();
  for (const auto& [member, out] : out_) polls_.push_back({out.socket.get(), POLLRDHUP, 0});
  if (!Live()) return Aborted();
  poll(polls_.data(), polls_.size(), 100);
  if (!Live()) return Aborted();
  size_t place = others;
  for (const auto& [member, out] : out_) {
    if (polls_[place++].revents != 0) return Lose(view_.RankOf(member), false);
  }
  return absl::OkStatus();
}

absl::StatusOr<TcpEdges::Out*> TcpEdges::Connected(int rank) {
  const GroupMember& member = view_.members[rank];
  const auto it = out_.find(member.id);
  if (it != out_.end()) return &it->second;
  RUBATO_ASSIGN_OR_RETURN(const Endpoint endpoint, ParseEndpoint(member.address));
  RUBATO_ASSIGN_OR_RETURN(const sockaddr_in address, Resolve(endpoint));
  Out out;
  out.socket = Fd(socket(AF_INET, SOCK_STREAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0));
  if (connect(out.socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
          0 &&
      errno != EINPROGRESS) {
    return Lose(rank, errno == ECONNREFUSED);
  }
  pollfd fds[2] = {{out.socket.get(), POLLOUT, 0}, {attention_.event_fd, POLLIN, 0}};
  while (poll(fds, 2, 100) >= 0 && fds[0].revents == 0) {
    if (!Live()) return Aborted();
  }
  int error = 0;
  socklen_t length = sizeof(error);
  getsockopt(out.socket.get(), SOL_SOCKET, SO_ERROR, &error, &length);
  if (error != 0) return Lose(rank, error == ECONNREFUSED);
  Tune(out.socket.get());
  const EdgeHello hello{EdgeHello::kEdge, group_, self_.value(), member.id.value()};
  if (send(out.socket.get(), &hello, sizeof(hello), MSG_NOSIGNAL) != sizeof(hello)) {
    return Lose(rank, false);
  }
  return &(out_[member.id] = std::move(out));
}

TcpEdges::In* TcpEdges::Arrived(int rank) {
  const MemberId member = view_.members[rank].id;
  if (has_arrivals_.exchange(false)) {
    MutexLock lock(mu_);
    uint64_t count;
    if (read(arrived_fd_.get(), &count, sizeof(count)) < 0) count = 0;
    for (auto& [ends, socket] : arrivals_) {
      if (ends.second == self_) in_[ends.first] = In{std::move(socket)};
    }
    arrivals_.clear();
  }
  const auto it = in_.find(member);
  return it == in_.end() ? nullptr : &it->second;
}

absl::Status TcpEdges::Lose(int rank, bool refused) {
  const MemberId member = view_.members[rank].id;
  out_.erase(member);
  in_.erase(member);
  // A broken connection is no proof of a death; a port that nobody listens at any more is.
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(view_.members[rank].address);
  lost_(member, refused || (endpoint.ok() && RefusesConnections(*endpoint, kRefusalTime)));
  while (Live()) {
    pollfd fd{attention_.event_fd, POLLIN, 0};
    poll(&fd, 1, 100);
  }
  return Aborted();
}

void TcpEdges::StartFrame(Operation& operation, const SendItem& item) {
  const absl::Span<float> values = operation.values.subspan(item.slice.begin, item.slice.size());
  if (operation.speeds != nullptr) operation.told = *operation.speeds;
  operation.frame = {
      view_.number, mark_, operation_,
      operation.told.size() * sizeof(float) + values.size() * WireBytes(operation.format)};
  operation.payload = reinterpret_cast<const char*>(values.data());
  if (operation.format == WireFormat::kFp32) return;
  packed_.resize(values.size() * WireBytes(operation.format));
  if (item.final) RoundTo(operation.format, values);
  Pack(operation.format, values, packed_.data());
  operation.payload = packed_.data();
}

// The header as it is, so that the receiver knows how much follows; then zeros.
bool TcpEdges::FillUp(Out& out) {
  static const char kFiller[4096] = {};
  while (out.cut_sent > 0) {
    const bool header = out.cut_sent < sizeof(Frame);
    const char* const from =
        header ? reinterpret_cast<const char*>(&out.cut) + out.cut_sent : kFiller;
    const uint64_t left = (header ? sizeof(Frame) : out.cut.Total()) - out.cut_sent;
    const ssize_t n = send(out.socket.get(), from, std::min<uint64_t>(left, sizeof(kFiller)),
                           MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && WouldBlock()) return false;
    if (n <= 0) break;  // Broken: the frame that follows will find out.
    out.cut_sent += n;
    if (out.cut_sent == out.cut.Total()) out.cut_sent = 0;
  }
  return true;
}

absl::StatusOr<bool> TcpEdges::TrySend(Operation& operation) {
  operation.blocked_out = -1;
  if (operation.sent == operation.sends.size()) return false;
  const SendItem& item = operation.sends[operation.sent];
  if (item.needs > operation.received) return false;
  RUBATO_ASSIGN_OR_RETURN(Out* const out, Connected(item.to));
  if (!FillUp(*out)) {
    operation.blocked_out = out->socket.get();
    return false;
  }
  if (operation.frame_sent == 0) StartFrame(operation, item);
  uint32_t whole = kWhole;
  const size_t told = operation.told.size() * sizeof(float);
  Pieces pieces;
  pieces.Add(&operation.frame, sizeof(Frame));
  pieces.Add(operation.told.data(), told);
  pieces.Add(const_cast<char*>(operation.payload), operation.frame.bytes - told);
  pieces.Add(&whole, sizeof(whole));
  msghdr message = pieces.After(operation.frame_sent);
  const ssize_t n = sendmsg(out->socket.get(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
  if (n < 0 && WouldBlock()) {
    operation.blocked_out = out->socket.get();
    return false;
  }
  if (n <= 0) return Lose(item.to, false);
  operation.frame_sent += n;
  if (operation.frame_sent == operation.frame.Total()) {
    operation.frame_sent = 0;
    ++operation.sent;
  }
  return true;
}

absl::StatusOr<bool> TcpEdges::TryReceive(Operation& operation) {
  operation.blocked_in = -1;
  if (operation.received == operation.receives.size()) return false;
  const ReceiveItem& item = operation.receives[operation.received];
  In* const in = Arrived(item.from);
  if (in == nullptr) return false;
  const auto take = [&](Pieces pieces, uint64_t done) {
    msghdr message = pieces.After(done);
    return recvmsg(in->socket.get(), &message, MSG_DONTWAIT);
  };
  const uint64_t heard = operation.speeds == nullptr ? 0 : view_.size() * sizeof(float);
  const bool header = in->header_got < sizeof(Frame);
  // Old, or of the other half of a split.
  const bool old = !header && (in->frame.view < view_.number ||
                               (in->frame.view == view_.number && in->frame.mark != mark_));
  ssize_t n = 0;
  const absl::Span<float> values = operation.values.subspan(item.slice.begin, item.slice.size());
  const bool in_place = !item.reduce && operation.format == WireFormat::kFp32;
  if (!header && !old && in->frame.view > view_.number) {
    operation.blocked_in = -1;  // The sender is a view ahead: ours is about to end.
    return false;
  }
  if (!header && !old &&
      (in->frame.operation != operation_ ||
       in->frame.bytes != heard + values.size() * WireBytes(operation.format))) {
    return absl::InternalError("members of the view do not make the same calls");
  }
  const uint64_t expected = in->frame.bytes + sizeof(kWhole);
  Pieces pieces;
  if (header) {
    pieces.Add(&in->frame, sizeof(Frame));
    n = take(pieces, in->header_got);
  } else {
    scratch_.resize(std::max<size_t>(scratch_.size(), kChunkBytes * 2));
    in->told.resize(heard / sizeof(float));
    if (old) {
      pieces.Add(scratch_.data(), std::min<uint64_t>(expected - in->payload_got, scratch_.size()));
    } else {
      pieces.Add(in->told.data(), heard);
      pieces.Add(in_place ? reinterpret_cast<char*>(values.data()) : scratch_.data(),
                 in->frame.bytes - heard);
      pieces.Add(&in->end, sizeof(in->end));
    }
    n = take(pieces, old ? 0 : in->payload_got);
  }
  if (n < 0 && WouldBlock()) {
    operation.blocked_in = in->socket.get();
    return false;
  }
  if (n <= 0) return Lose(item.from, false);
  if (header) {
    in->header_got += n;
    return true;
  }
  in->payload_got += n;
  if (in->payload_got < expected) return true;
  in->header_got = in->payload_got = 0;
  // Cut off: its sender is in another view already, and no more comes to this one.
  if (old || in->end != kWhole) return true;
  for (size_t i = 0; i < heard / sizeof(float); ++i) {
    (*operation.speeds)[i] = std::max((*operation.speeds)[i], in->told[i]);
  }
  if (item.reduce) {
    UnpackAdd(operation.format, scratch_.data(), values);
  } else if (!in_place) {
    Unpack(operation.format, scratch_.data(), values);
  }
  ++operation.received;
  return true;
}

}  // namespace rubato
