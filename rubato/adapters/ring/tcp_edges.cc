#include "rubato/adapters/ring/tcp_edges.h"

#include <poll.h>
#include <sys/eventfd.h>
#include <sys/uio.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <utility>

#include "rubato/adapters/ring/group_settings.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

constexpr int64_t kChunkBytes = 256 << 10;

absl::Status Aborted() { return absl::AbortedError("the view has ended"); }

// What goes through a stream in one call.
class Pieces {
 public:
  void Add(void* data, size_t bytes) { all_[count_++] = {data, bytes}; }
  // All but the first `done` bytes.
  absl::Span<const iovec> After(uint64_t done) {
    size_t first = 0;
    while (first < count_ && done >= all_[first].iov_len) done -= all_[first++].iov_len;
    if (first < count_) {
      all_[first].iov_base = static_cast<char*>(all_[first].iov_base) + done;
      all_[first].iov_len -= done;
    }
    return {all_ + first, count_ - first};
  }

 private:
  iovec all_[4];
  size_t count_ = 0;
};

// The least multiple of `step` that is not less than `n`.
constexpr uint64_t RoundUp(uint64_t n, uint64_t step) { return (n + step - 1) / step * step; }

constexpr int16_t kGone = POLLRDHUP | POLLHUP | POLLERR | POLLNVAL;

}  // namespace

uint64_t TcpEdges::Frame::TailBytes() const {
  return RoundUp(bytes + sizeof(kWhole), kLine) - bytes;
}

struct TcpEdges::Operation {
  uint64_t call = 0;
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
  uint64_t frame_sent = 0;              // Header, speeds, payload and tail together.
  const Stream* blocked_out = nullptr;  // What a poll should wait for.
  const Stream* blocked_in = nullptr;

  bool done() const { return sent == sends.size() && received == receives.size(); }
};

TcpEdges::TcpEdges(const Attention& attention, uint64_t group, EdgeNetwork& network,
                   std::function<void(MemberId, LossReason)> lost, EdgeBug bug)
    : attention_(attention),
      group_(group),
      network_(network),
      lost_(std::move(lost)),
      bug_(bug),
      arrived_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {}

TcpEdges::~TcpEdges() = default;

void TcpEdges::Arrive(MemberId member, MemberId to, std::unique_ptr<Stream> stream) {
  MutexLock lock(mu_);
  arrivals_[{member, to}] = std::move(stream);
  has_arrivals_ = true;
  const uint64_t one = 1;
  if (write(arrived_fd_.get(), &one, sizeof(one)) < 0) return;  // Full means signalled already.
}

absl::Status TcpEdges::Enter(const GroupView& view, int rank, MemberId self) {
  EnterAmong(view, rank, self, RingOrder(view));
  return absl::OkStatus();
}

void TcpEdges::EnterAmong(const GroupView& view, int rank, MemberId self, std::vector<int> order) {
  // Connections are between two lives: what the last one had open, its peers have closed or will.
  if (self != self_) {
    out_.clear();
    in_.clear();
  }
  view_ = view;
  rank_ = rank;
  order_ = std::move(order);
  self_ = self;
  mark_ = static_cast<uint32_t>(view.Mark());
  operation_ = 0;
  std::erase_if(out_, [&](const auto& edge) {
    // Nobody waits for the rest of a greeting that the last view's end cut off.
    const bool greeted = edge.second.hello_sent == sizeof(EdgeHello);
    return !view.Contains(edge.first) || !greeted || edge.second.stream->gone();
  });
  std::erase_if(in_, [&](const auto& edge) { return !view.Contains(edge.first); });
}

absl::Status TcpEdges::Allreduce(absl::Span<float> values, WireFormat format) {
  const uint64_t bytes = values.size() * WireBytes(format);
  return Reduce(values, format, CallWord(Collective::kAllreduce, bytes, format, 0), nullptr);
}

absl::Status TcpEdges::AllreduceAndTell(absl::Span<float> values, WireFormat format, float speed,
                                        std::vector<float>& speeds) {
  std::vector<float> heard(view_.size(), 0.0f);
  heard[rank_] = speed;
  const uint64_t bytes = values.size() * WireBytes(format);
  const uint64_t call = CallWord(Collective::kAllreduceAndTell, bytes, format, 0);
  RUBATO_RETURN_IF_ERROR(Reduce(values, format, call, &heard));
  speeds = std::move(heard);
  return absl::OkStatus();
}

absl::Status TcpEdges::Reduce(absl::Span<float> values, WireFormat format, uint64_t call,
                              std::vector<float>* speeds) {
  const int64_t elements = static_cast<int64_t>(values.size());
  const int wire = WireBytes(format);
  const Algorithm algorithm = ChooseAlgorithm(elements * wire, static_cast<int>(order_.size()));
  Operation operation{call, values, format, speeds};
  Chunk(PlanInOrder(algorithm, elements), kChunkBytes / wire, operation.sends, operation.receives);
  return Run(operation);
}

int TcpEdges::SeatOf(int rank) const {
  return static_cast<int>(std::find(order_.begin(), order_.end(), rank) - order_.begin());
}

std::vector<Exchange> TcpEdges::PlanInOrder(Algorithm algorithm, int64_t elements) const {
  const int size = static_cast<int>(order_.size());
  std::vector<Exchange> plan = MakePlan(algorithm, SeatOf(rank_), size, elements);
  for (Exchange& stage : plan) {
    if (stage.send_to >= 0) stage.send_to = order_[stage.send_to];
    if (stage.receive_from >= 0) stage.receive_from = order_[stage.receive_from];
  }
  return plan;
}

absl::Status TcpEdges::Vote(int64_t step, float speed, std::vector<float>& speeds) {
  speeds.assign(view_.size(), 0.0f);
  speeds[rank_] = speed;
  return Gather(CallWord(Collective::kVote, 0, WireFormat::kFp32, step), speeds);
}

absl::Status TcpEdges::Gather(uint64_t call, std::vector<float>& speeds) {
  // Up the tree and down again: whoever has the sum knows that everyone has called.
  Operation operation{call, absl::MakeSpan(speeds), WireFormat::kFp32};
  Chunk(PlanInOrder(Algorithm::kTree, view_.size()), kChunkBytes, operation.sends,
        operation.receives);
  return Run(operation);
}

absl::Status TcpEdges::Broadcast(absl::Span<char> bytes, int root) {
  return Spread(bytes, root,
                CallWord(Collective::kBroadcast, bytes.size(), WireFormat::kFp32, root));
}

absl::Status TcpEdges::Spread(absl::Span<char> bytes, int root, uint64_t call) {
  std::vector<float> words((bytes.size() + 3) / 4);
  const bool any = !bytes.empty();
  if (any && rank_ == root) std::memcpy(words.data(), bytes.data(), bytes.size());
  const int size = static_cast<int>(order_.size());
  const int top = SeatOf(root);
  const int place = (SeatOf(rank_) - top + size) % size;  // In the tree whose root is `root`.
  const auto rank_of = [&](int p) { return order_[(p + top) % size]; };
  Operation operation{call, absl::MakeSpan(words), WireFormat::kFp32};
  const int64_t chunk = kChunkBytes / 4;
  for (int64_t begin = 0; begin < static_cast<int64_t>(words.size()); begin += chunk) {
    const Slice slice{begin, std::min<int64_t>(begin + chunk, words.size())};
    if (place > 0) operation.receives.push_back({rank_of(TreeParent(place)), slice, false});
    for (int child : TreeChildren(place, size)) {
      operation.sends.push_back({rank_of(child), slice, true, operation.receives.size()});
    }
  }
  RUBATO_RETURN_IF_ERROR(Run(operation));
  if (any && rank_ != root) std::memcpy(bytes.data(), words.data(), bytes.size());
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
  for (auto& [member, out] : out_) out.used = false;
  while (true) {
    RUBATO_ASSIGN_OR_RETURN(const bool received, TryReceive(operation));
    RUBATO_ASSIGN_OR_RETURN(const bool sent, TrySend(operation));
    if (received || sent) continue;
    const bool flushed = Flush();
    if (operation.done() && flushed) return absl::OkStatus();
    RUBATO_RETURN_IF_ERROR(Wait(operation));
  }
}

bool TcpEdges::Flush() {
  bool all = true;
  for (auto& [member, out] : out_) all = (out.stream->Flush() || !out.used) && all;
  return all;
}

absl::Status TcpEdges::Wait(const Operation& operation) {
  polls_ = {{attention_.event_fd, POLLIN, 0}, {arrived_fd_.get(), POLLIN, 0}};
  for (const Stream* const blocked : {operation.blocked_out, operation.blocked_in}) {
    if (blocked != nullptr) polls_.push_back({blocked->fd(), blocked->wants(), 0});
  }
  // What was sent to an end that has been closed since, nobody answers.
  const size_t others = polls_.size();
  for (auto& [member, out] : out_) {
    const int16_t held = out.stream->Flush() ? 0 : POLLOUT;
    polls_.push_back({out.stream->fd(), static_cast<int16_t>(POLLRDHUP | held), 0});
  }
  if (!Live()) return Aborted();
  network_.Wait(absl::MakeSpan(polls_));
  if (!Live()) return Aborted();
  size_t place = others;
  for (auto out = out_.begin(); out != out_.end(); ++out) {
    if ((polls_[place++].revents & kGone) == 0) continue;
    return Broken(out_, view_.RankOf(out->first)).status();
  }
  const bool moment = std::all_of(polls_.begin(), polls_.end(),
                                  [](const pollfd& polled) { return polled.revents == 0; });
  if (!moment) return absl::OkStatus();
  // One that has not called yet may compute, or may be unable to: that it can be called is soon
  // found out, and the other may reach nobody whom it could tell.
  for (size_t i = operation.received; i < operation.receives.size(); ++i) {
    const int from = operation.receives[i].from;
    if (Arrived(from) != nullptr) continue;
    RUBATO_ASSIGN_OR_RETURN(Out* const out, Connected(from, false));
    Prepare(*out);  // Who calls and does not say who it is is soon hung up on.
  }
  const int silent = FindSilent(operation);
  return silent < 0 ? absl::OkStatus() : Lose(silent, LossReason::kLink);
}

absl::StatusOr<TcpEdges::Out*> TcpEdges::Connected(int rank, bool needed) {
  const GroupMember& member = view_.members[rank];
  const auto it = out_.find(member.id);
  if (it != out_.end()) return &it->second;
  absl::StatusOr<std::unique_ptr<Stream>> stream =
      network_.Connect(member.address, attention_.event_fd, [this] { return Live(); });
  if (absl::IsAborted(stream.status())) return Aborted();
  if (absl::IsDeadlineExceeded(stream.status())) return Lose(rank, LossReason::kLink);
  if (!stream.ok()) {
    const bool refused = absl::IsFailedPrecondition(stream.status());
    return Lose(rank, refused ? LossReason::kRefused : LossReason::kSocket);
  }
  const EdgeHello hello{EdgeHello::kEdge, group_, self_.value(), member.id.value()};
  return &(out_[member.id] = {*std::move(stream), hello, 0, needed ? view_.number : 0});
}

TcpEdges::In* TcpEdges::Arrived(int rank) {
  const MemberId member = view_.members[rank].id;
  if (has_arrivals_.exchange(false)) {
    MutexLock lock(mu_);
    uint64_t count;
    if (read(arrived_fd_.get(), &count, sizeof(count)) < 0) count = 0;
    for (auto& [ends, stream] : arrivals_) {
      if (ends.second == self_) in_[ends.first] = In{std::move(stream)};
    }
    arrivals_.clear();
  }
  const auto it = in_.find(member);
  return it == in_.end() ? nullptr : &it->second;
}

int TcpEdges::FindSilent(const Operation& operation) {
  std::set<int> needed;
  for (const SendItem& item : operation.sends) needed.insert(item.to);
  for (const ReceiveItem& item : operation.receives) needed.insert(item.from);
  for (const int rank : needed) {
    const MemberId member = view_.members[rank].id;
    const auto out = out_.find(member);
    const auto in = in_.find(member);
    if (out != out_.end() && network_.IsSilent(*out->second.stream)) return rank;
    if (in != in_.end() && network_.IsSilent(*in->second.stream)) return rank;
  }
  return -1;
}

template <typename Edge>
absl::StatusOr<bool> TcpEdges::Broken(std::map<MemberId, Edge>& edges, int rank) {
  const auto edge = edges.find(view_.members[rank].id);
  if (edge->second.view == view_.number) return Lose(rank, LossReason::kSocket);
  edges.erase(edge);
  if (network_.Refuses(view_.members[rank].address)) return Lose(rank, LossReason::kRefused);
  return true;
}

absl::Status TcpEdges::Lose(int rank, LossReason how) {
  const MemberId member = view_.members[rank].id;
  out_.erase(member);
  in_.erase(member);
  // A broken connection is no proof of a death; a port that nobody listens at any more is.
  const bool refused = how == LossReason::kRefused || network_.Refuses(view_.members[rank].address);
  lost_(member, refused ? LossReason::kRefused : how);
  while (Live()) {
    pollfd fd{attention_.event_fd, POLLIN, 0};
    network_.Wait({&fd, 1});
  }
  return Aborted();
}

void TcpEdges::StartFrame(Operation& operation, const SendItem& item) {
  const absl::Span<float> values = operation.values.subspan(item.slice.begin, item.slice.size());
  if (operation.speeds != nullptr) {
    operation.told = *operation.speeds;
    operation.told.resize(RoundUp(operation.told.size(), kLine / sizeof(float)));
  }
  operation.frame = {
      view_.number, mark_, operation_,
      operation.told.size() * sizeof(float) + values.size() * WireBytes(operation.format),
      operation.call};
  operation.payload = reinterpret_cast<const char*>(values.data());
  if (operation.format == WireFormat::kFp32) return;
  packed_.resize(values.size() * WireBytes(operation.format));
  if (item.final) RoundTo(operation.format, values);
  Pack(operation.format, values, packed_.data());
  operation.payload = packed_.data();
}

// Of a frame that was cut off the header as it is, so that the receiver knows how much follows;
// then zeros.
bool TcpEdges::Prepare(Out& out) {
  static const char kFiller[4096] = {};
  while (out.hello_sent < sizeof(EdgeHello) || out.cut_sent > 0) {
    const bool hello = out.hello_sent < sizeof(EdgeHello);
    const bool header = out.cut_sent < sizeof(Frame);
    uint64_t& done = hello ? out.hello_sent : out.cut_sent;
    const uint64_t end = hello    ? sizeof(EdgeHello)
                         : header ? sizeof(Frame)
                                  : std::min(out.cut.Total(), done + sizeof(kFiller));
    const char* const from = hello    ? reinterpret_cast<const char*>(&out.hello) + done
                             : header ? reinterpret_cast<const char*>(&out.cut) + done
                                      : kFiller;
    const int64_t n = out.stream->WriteBytes(from, end - done);
    if (n == Stream::kWait) return false;
    if (n < 0) break;  // Broken: the frame that follows will find out.
    done += n;
    if (out.cut_sent == out.cut.Total()) out.cut_sent = 0;
  }
  return true;
}

absl::StatusOr<bool> TcpEdges::TrySend(Operation& operation) {
  operation.blocked_out = nullptr;
  if (operation.sent == operation.sends.size()) return false;
  const SendItem& item = operation.sends[operation.sent];
  if (item.needs > operation.received) return false;
  RUBATO_ASSIGN_OR_RETURN(Out* const out, Connected(item.to, true));
  if (!Prepare(*out)) {
    operation.blocked_out = out->stream.get();
    return false;
  }
  if (operation.frame_sent == 0) StartFrame(operation, item);
  Tail tail;
  const uint64_t tail_bytes = operation.frame.TailBytes();
  const size_t told = operation.told.size() * sizeof(float);
  Pieces pieces;
  pieces.Add(&operation.frame, sizeof(Frame));
  pieces.Add(operation.told.data(), told);
  pieces.Add(const_cast<char*>(operation.payload), operation.frame.bytes - told);
  pieces.Add(tail.Last(tail_bytes), tail_bytes);
  const int64_t n = out->stream->Write(pieces.After(operation.frame_sent));
  if (n == Stream::kWait) {
    operation.blocked_out = out->stream.get();
    return false;
  }
  if (n < 0) return Broken(out_, item.to);
  out->view = view_.number;
  out->used = true;
  operation.frame_sent += n;
  if (operation.frame_sent == operation.frame.Total()) {
    operation.frame_sent = 0;
    ++operation.sent;
  }
  return true;
}

absl::StatusOr<bool> TcpEdges::TryReceive(Operation& operation) {
  operation.blocked_in = nullptr;
  if (operation.received == operation.receives.size()) return false;
  const ReceiveItem& item = operation.receives[operation.received];
  In* const in = Arrived(item.from);
  if (in == nullptr) return false;
  const uint64_t heard =
      operation.speeds == nullptr ? 0 : RoundUp(view_.size() * sizeof(float), kLine);
  const bool header = in->header_got < sizeof(Frame);
  // Old, or of the other half of a split.
  const bool old = !header && (in->frame.view < view_.number ||
                               (in->frame.view == view_.number && in->frame.mark != mark_));
  const absl::Span<float> values = operation.values.subspan(item.slice.begin, item.slice.size());
  const bool in_place = !item.reduce && operation.format == WireFormat::kFp32;
  if (!header && !old && in->frame.view > view_.number) {
    return false;  // The sender is a view ahead: ours is about to end.
  }
  if (!header && !old &&
      (in->frame.operation != operation_ || in->frame.call != operation.call ||
       in->frame.bytes != heard + values.size() * WireBytes(operation.format))) {
    return absl::InternalError("members of the view do not make the same calls");
  }
  const uint64_t tail_bytes = in->frame.TailBytes();
  const uint64_t expected = in->frame.bytes + tail_bytes;
  Pieces pieces;
  if (header) {
    pieces.Add(&in->frame, sizeof(Frame));
  } else {
    scratch_.resize(std::max<size_t>(scratch_.size(), kChunkBytes * 2));
    in->told.resize(heard / sizeof(float));
    if (old) {
      pieces.Add(scratch_.data(), std::min<uint64_t>(expected - in->payload_got, scratch_.size()));
    } else {
      pieces.Add(in->told.data(), heard);
      pieces.Add(in_place ? reinterpret_cast<char*>(values.data()) : scratch_.data(),
                 in->frame.bytes - heard);
      pieces.Add(in->tail.Last(tail_bytes), tail_bytes);
    }
  }
  const uint64_t done = header ? in->header_got : old ? 0 : in->payload_got;
  const int64_t n = in->stream->Read(pieces.After(done));
  if (n == Stream::kWait) {
    operation.blocked_in = in->stream.get();
    return false;
  }
  if (n < 0) return Broken(in_, item.from);
  if (header) {
    in->header_got += n;
    if (in->header_got == sizeof(Frame)) in->view = std::max(in->view, in->frame.view);
    return true;
  }
  in->payload_got += n;
  if (in->payload_got < expected) return true;
  in->header_got = in->payload_got = 0;
  // Cut off: its sender is in another view already, and no more comes to this one.
  if (old || (in->tail.word != kWhole && bug_ != EdgeBug::kNoEndWord)) return true;
  for (size_t i = 0; heard > 0 && i < operation.speeds->size(); ++i) {
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
