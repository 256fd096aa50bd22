#include "rubato/params/log_replica.h"

#include <algorithm>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "rubato/base/bytes.h"
#include "rubato/base/json_seal.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

constexpr int64_t kOrderBytesMax = int64_t{1} << 20;
// Under way at once: enough to keep a line busy, little enough to be lost with it.
constexpr int64_t kWindowBytes = int64_t{8} << 20;
// With so little left a new follower takes over.
constexpr int64_t kNearBytes = int64_t{1} << 20;

std::string JointLines(const LogSizes& joints) {
  return absl::StrJoin(joints, "\n", absl::PairFormatter(" "));
}

}  // namespace

LogPosition EndOf(const LogSizes& sizes) {
  if (sizes.empty()) return {};
  return {sizes.rbegin()->first, sizes.rbegin()->second};
}

int64_t FollowerOf(int64_t server, int64_t servers) {
  if (server >= servers) return servers > 0 ? 0 : -1;
  return servers < 2 ? -1 : (server + 1) % servers;
}

// ---- ReplicaLink ----

void ReplicaLink::Connected(const LogSizes& log, LogSizes there) {
  Lost();
  connected_ = true;
  first_ = there.empty() ? INT64_MAX : there.begin()->first;
  ahead_ = std::any_of(there.begin(), there.end(), [&](const auto& segment) {
    if (!log.empty() && segment.first < log.begin()->first) return false;  // It will be dropped.
    const auto ours = log.find(segment.first);
    return ours == log.end() || ours->second < segment.second;
  });
  there_ = std::move(there);
  next_ = {};
  if (ahead_) return;
  // Up to the first that is not all there. What it lacks at its front, an earlier life of ours had
  // it drop.
  const auto begin = there_.empty() ? log.begin() : log.lower_bound(there_.begin()->first);
  for (auto it = begin; it != log.end(); ++it) {
    next_ = {it->first, Had(it->first)};
    if (next_.bytes < it->second) break;
  }
  held_ = next_;
}

int64_t ReplicaLink::Had(int64_t segment) const {
  const auto it = there_.find(segment);
  return it == there_.end() ? 0 : it->second;
}

void ReplicaLink::Lost() {
  connected_ = retiring_ = retired_ = false;
  held_ = {};
  sent_.clear();
  sent_bytes_ = 0;
}

void ReplicaLink::Send(int64_t bytes, bool forgets) {
  sent_.push_back({.then = next_, .bytes = bytes, .forgets = forgets});
  sent_bytes_ += bytes;
}

std::optional<ReplicaOrder> ReplicaLink::Next(const LogSizes& log) {
  using Kind = ReplicaOrder::Kind;
  if (!connected_ || ahead_ || retired_ || log.empty()) return std::nullopt;
  if (sent_bytes_ >= kWindowBytes) return std::nullopt;
  if (!sent_.empty() && sent_.back().forgets && retiring_) return std::nullopt;
  if (retiring_) {
    held_ = {};  // From now on nothing it has can be counted on, nor what is under way.
    for (Sent& sent : sent_) sent.then = {};
    there_.clear();
    first_ = INT64_MAX;
    const LogPosition then = std::exchange(next_, LogPosition{});  // Nothing is held by that.
    Send(0, /*forgets=*/true);
    next_ = then;
    return ReplicaOrder{.kind = Kind::kForget};
  }
  const int64_t first = log.begin()->first;
  if (first_ < first) {
    first_ = first;
    next_ = std::max(next_, LogPosition{first, 0});
    Send(0);
    return ReplicaOrder{.kind = Kind::kDropBefore, .segment = first};
  }
  next_ = std::max(next_, LogPosition{first, 0});
  auto segment = log.find(next_.segment);
  if (segment == log.end()) return std::nullopt;
  if (next_.bytes >= segment->second) {
    if (++segment == log.end()) return std::nullopt;
    next_ = {segment->first, Had(segment->first)};
    return Next(log);
  }
  const ReplicaOrder order = {.kind = Kind::kAppend,
                              .segment = next_.segment,
                              .offset = next_.bytes,
                              .bytes = std::min(kOrderBytesMax, segment->second - next_.bytes)};
  next_.bytes += order.bytes;
  first_ = std::min(first_, next_.segment);
  Send(order.bytes);
  return order;
}

void ReplicaLink::Answered() {
  if (sent_.empty()) return;
  const Sent done = sent_.front();
  sent_.pop_front();
  sent_bytes_ -= done.bytes;
  held_ = std::max(held_, done.then);
  if (done.forgets && retiring_) retired_ = true;
}

void ReplicaLink::Keep(const LogSizes& log) {
  if (retired_) Connected(log, {});
  if (sent_.empty() || !sent_.back().forgets) retiring_ = false;
}

bool ReplicaLink::Near(const LogSizes& log) const {
  const LogPosition end = EndOf(log);
  return connected_ && next_.segment == end.segment && end.bytes - next_.bytes <= kNearBytes;
}

// ---- LogReplicas ----

void LogReplicas::Open(LogSizes log) {
  log_ = std::move(log);
  past_ = EndOf(log_);
}

void LogReplicas::DroppedBefore(int64_t segment) {
  log_.erase(log_.begin(), log_.lower_bound(segment));
  Look();
}

void LogReplicas::SetFollower(int64_t server) {
  follower_ = server;
  if (server >= 0) links_.try_emplace(server);
  Look();
}

bool LogReplicas::connected(int64_t server) const {
  const auto link = links_.find(server);
  return link != links_.end() && link->second.connected();
}

std::vector<int64_t> LogReplicas::Lines() const {
  std::vector<int64_t> servers;
  for (const auto& [server, link] : links_) servers.push_back(server);
  return servers;
}

void LogReplicas::Connected(int64_t server, LogSizes there) {
  const auto link = links_.find(server);
  if (link == links_.end()) return;
  link->second.Connected(log_, std::move(there));
  Look();
}

void LogReplicas::Lost(int64_t server) {
  const auto link = links_.find(server);
  if (link == links_.end()) return;
  link->second.Lost();
  Look();
}

// Once a new follower has nearly all, the old one gets no more: what is acknowledged from then on
// is there, and it comes to be level however busy the log is.
std::optional<ReplicaOrder> LogReplicas::Next(int64_t server) {
  const auto link = links_.find(server);
  if (link == links_.end()) return std::nullopt;
  const auto follower = links_.find(follower_);
  const bool over = server != follower_ && follower != links_.end() &&
                    follower->second.Near(log_) && !Level(follower->second);
  return over ? std::nullopt : link->second.Next(log_);
}

void LogReplicas::Answered(int64_t server) {
  const auto link = links_.find(server);
  if (link == links_.end()) return;
  link->second.Answered();
  Look();
}

// Whether it has all that was ever acknowledged.
bool LogReplicas::Level(const ReplicaLink& link) const {
  return link.connected() && link.held() >= std::max(held_, past_);
}

// Counts what followers have, and lets those go that are needed no more.
void LogReplicas::Look() {
  const auto follower = links_.find(follower_);
  if (follower != links_.end()) follower->second.Keep(log_);
  for (const auto& [server, link] : links_) held_ = std::max(held_, link.held());
  const bool level = follower != links_.end() && Level(follower->second);
  for (auto it = links_.begin(); it != links_.end();) {
    ReplicaLink& link = it->second;
    const bool other = it->first != follower_;
    if (other && level) link.Retire();
    if (other && !level) link.Keep(log_);
    const bool gone = other && level && (link.retired() || !link.connected());
    it = gone ? links_.erase(it) : std::next(it);
  }
}

int64_t LogReplicas::settled() const {
  const auto link = links_.find(follower_);
  return links_.size() == 1 && link != links_.end() && Level(link->second) ? follower_ : -1;
}

int64_t LogReplicas::behind() const {
  int64_t bytes = 0;
  for (const auto& [segment, size] : log_) {
    if (segment > held_.segment) bytes += size;
    if (segment == held_.segment) bytes += std::max<int64_t>(0, size - held_.bytes);
  }
  return bytes;
}

int64_t LogReplicas::outrun() const {
  for (const auto& [server, link] : links_) {
    if (link.ahead()) return server;
  }
  return -1;
}

// ---- ReplicaCopy ----

absl::Status ReplicaCopy::Follow(int64_t incarnation, int64_t line) {
  if (incarnation < incarnation_) {
    return absl::FailedPreconditionError(
        absl::StrFormat("life %d of that server is over, %d has come", incarnation, incarnation_));
  }
  incarnation_ = incarnation;
  line_ = line;
  return absl::OkStatus();
}

absl::Status ReplicaCopy::Check(int64_t line, const ReplicaOrder& order) const {
  if (line != line_) return absl::AbortedError("another line has taken over this copy");
  if (order.kind != ReplicaOrder::Kind::kAppend) return absl::OkStatus();
  const auto segment = sizes_.find(order.segment);
  const int64_t size = segment == sizes_.end() ? 0 : segment->second;
  if (order.offset == size) return absl::OkStatus();
  return absl::AbortedError(absl::StrFormat("segment %d of the copy has %d bytes, not %d",
                                            order.segment, size, order.offset));
}

std::vector<int64_t> ReplicaCopy::Done(const ReplicaOrder& order) {
  if (order.kind == ReplicaOrder::Kind::kAppend) {
    sizes_[order.segment] = order.offset + order.bytes;
    return {};
  }
  const bool all = order.kind == ReplicaOrder::Kind::kForget;
  const auto end = all ? sizes_.end() : sizes_.lower_bound(order.segment);
  std::vector<int64_t> gone;
  for (auto it = sizes_.begin(); it != end; ++it) gone.push_back(it->first);
  sizes_.erase(sizes_.begin(), end);
  return gone;
}

int64_t LongestCopy(const std::vector<LogSizes>& copies) {
  const auto longest =
      std::max_element(copies.begin(), copies.end(),
                       [](const LogSizes& a, const LogSizes& b) { return EndOf(a) < EndOf(b); });
  return longest == copies.end() || longest->empty() ? -1 : longest - copies.begin();
}

LogRepair CompareLog(const LogSizes& log, const LogSizes& joints,
                     const std::vector<LogSizes>& copies) {
  LogRepair repair;
  if (log.empty()) return repair;
  for (size_t i = 0; i < copies.size(); ++i) {
    bool strange = false;
    for (auto it = copies[i].lower_bound(log.begin()->first); it != copies[i].end(); ++it) {
      const auto& [segment, bytes] = *it;
      const auto own = log.find(segment);
      if (own != log.end() && own->second >= bytes) continue;
      const auto joint = joints.find(segment);
      if (own != log.end() && joint != joints.end() && own->second >= joint->second) {
        strange = true;
        continue;
      }
      const auto [taken, is_first] = repair.take.try_emplace(segment, i);
      if (!is_first && copies[taken->second].at(segment) < bytes) taken->second = i;
    }
    if (strange) repair.forget.push_back(i);
  }
  return repair;
}

// ---- as bytes ----

std::string Encode(const FollowRequest& request) {
  std::string out;
  ByteWriter writer(out);
  writer.PutString(request.job);
  writer.Put<int64_t>(request.follower);
  writer.Put<int64_t>(request.leader);
  writer.Put<int64_t>(request.incarnation);
  return out;
}

absl::StatusOr<FollowRequest> DecodeFollow(absl::string_view body) {
  ByteReader reader(body);
  FollowRequest request;
  request.job = std::string(reader.GetString());
  request.follower = reader.Get<int64_t>();
  request.leader = reader.Get<int64_t>();
  request.incarnation = reader.Get<int64_t>();
  if (!reader.ok() || reader.remaining() > 0 || request.leader < 0 ||
      request.leader >= kPartitions) {  // There are no more servers.
    return absl::InvalidArgumentError("not the first words of a leader");
  }
  return request;
}

std::string Encode(const LogSizes& sizes) {
  std::string out;
  ByteWriter writer(out);
  for (const auto& [segment, bytes] : sizes) {
    writer.Put<int64_t>(segment);
    writer.Put<int64_t>(bytes);
  }
  return out;
}

absl::StatusOr<LogSizes> DecodeLogSizes(absl::string_view body) {
  ByteReader reader(body);
  LogSizes sizes;
  while (reader.ok() && reader.remaining() > 0) {
    const auto segment = reader.Get<int64_t>();
    sizes[segment] = reader.Get<int64_t>();
  }
  if (!reader.ok()) return absl::InvalidArgumentError("not the sizes of a copy");
  return sizes;
}

std::string EncodeJoints(const LogSizes& joints) { return SealedLines(JointLines(joints)); }

absl::StatusOr<LogSizes> DecodeJoints(absl::string_view text) {
  std::string lines;
  LogSizes joints;
  bool sound = ReadSealedLines(text, &lines);
  for (const absl::string_view line : absl::StrSplit(lines, '\n')) {
    const std::pair<absl::string_view, absl::string_view> words = absl::StrSplit(line, ' ');
    int64_t segment = 0, bytes = 0;
    sound = sound && absl::SimpleAtoi(words.first, &segment) &&
            absl::SimpleAtoi(words.second, &bytes) && segment >= 0 && bytes >= 0;
    joints[segment] = bytes;
  }
  // Nothing but numbers, each segment once: what was cut to nothing is not empty either.
  if (sound && JointLines(joints) == lines) return joints;
  return absl::DataLossError("is damaged: it is not as it was written");
}

std::string Encode(const ReplicaOrder& order) {
  std::string out;
  ByteWriter writer(out);
  writer.Put<uint64_t>(static_cast<uint64_t>(order.kind));
  writer.Put<int64_t>(order.segment);
  writer.Put<int64_t>(order.offset);
  writer.Put<int64_t>(order.bytes);
  return out;
}

absl::StatusOr<ReplicaOrder> DecodeReplicaOrder(absl::string_view body) {
  ByteReader reader(body);
  ReplicaOrder order;
  const auto kind = reader.Get<uint64_t>();
  order.kind = static_cast<ReplicaOrder::Kind>(kind);
  order.segment = reader.Get<int64_t>();
  order.offset = reader.Get<int64_t>();
  order.bytes = reader.Get<int64_t>();
  if (!reader.ok() || kind > 2 || order.segment < 0 || order.offset < 0 || order.bytes < 0) {
    return absl::InvalidArgumentError("no order for a copy of a log");
  }
  return order;
}

}  // namespace rubato
