#include "rubato/adapters/ring/machines_plane.h"

#include <algorithm>
#include <utility>

#include "rubato/adapters/ring/group_settings.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Of a large sum goes between the machines at once, for each of them: the more there are, the more
// turns a piece takes, whose number counts where they are short.
constexpr size_t kPieceBytes = 2 << 20;

absl::Span<char> BytesOf(absl::Span<float> values) {
  return {reinterpret_cast<char*>(values.data()), values.size() * sizeof(float)};
}

}  // namespace

MachinesPlane::MachinesPlane(SharedSlots* shared, TcpEdges& tcp)
    : shared_(shared),
      tcp_(tcp),
      reducer_([this](absl::Span<float> piece) { return SumBetween(piece); }) {}

absl::Status MachinesPlane::Enter(const GroupView& view, int rank, MemberId self) {
  rank_ = rank;
  first_of_.assign(view.size(), 0);
  const std::vector<std::vector<int>> machines = MachinesOf(view);
  for (const std::vector<int>& machine : machines) {
    for (const int member : machine) first_of_[member] = machine[0];
    if (machine[0] == first_of_[rank]) ours_ = machine;
  }
  piece_ = machines.size() * kPieceBytes / sizeof(float);
  std::vector<int> firsts = RingOrder(view);
  std::erase_if(firsts, [&](int member) { return first_of_[member] != member; });
  tcp_.EnterAmong(view, rank, self, std::move(firsts));
  if (alone()) return absl::OkStatus();
  // Its marks are of the whole view: the same members here may be in two that count alike.
  GroupView here{.number = view.number, .step = view.step, .parent = view.Mark()};
  for (const int member : ours_) here.members.push_back(view.members[member]);
  here.holders = here.size();
  return shared_->Enter(here, SeatOf(rank), self);
}

int MachinesPlane::SeatOf(int rank) const {
  return static_cast<int>(std::find(ours_.begin(), ours_.end(), rank) - ours_.begin());
}

absl::Status MachinesPlane::Allreduce(absl::Span<float> values, WireFormat format) {
  const uint64_t bytes = values.size() * sizeof(float);
  const uint64_t call = CallWord(Collective::kAllreduce, bytes, format, 0);
  between_ = {.call = call, .format = format};
  std::vector<float> heard(first_of_.size(), 0.0f);
  return Heed(Reduce(values, 0, heard), call);
}

absl::Status MachinesPlane::AllreduceAndTell(absl::Span<float> values, WireFormat format,
                                             float speed, std::vector<float>& speeds) {
  const uint64_t bytes = values.size() * sizeof(float);
  const uint64_t call = CallWord(Collective::kAllreduceAndTell, bytes, format, 0);
  std::vector<float> heard(first_of_.size(), 0.0f);
  const size_t before = values.empty() ? 0 : (values.size() - 1) / piece_ * piece_;
  between_ = {.call = call, .format = format, .last = values.data() + before, .speeds = &heard};
  RUBATO_RETURN_IF_ERROR(Heed(Reduce(values, speed, heard), call));
  speeds = std::move(heard);
  return absl::OkStatus();
}

// A piece is under way between the machines while memory sums the next and spreads the one before.
// A small sum is one piece, and needs no other thread.
absl::Status MachinesPlane::Reduce(absl::Span<float> values, float speed,
                                   std::vector<float>& heard) {
  absl::Span<float> under_way;
  for (size_t done = 0; done == 0 || done < values.size(); done += piece_) {
    const absl::Span<float> piece = values.subspan(done, piece_);
    absl::Status came = SumHere(piece, speed, heard);
    came.Update(reducer_.Wait());
    RUBATO_RETURN_IF_ERROR(came);
    const bool beside = !alone() && piece.size() < values.size();
    if (first() && beside) reducer_.Start(piece);
    if (first() && !beside) RUBATO_RETURN_IF_ERROR(SumBetween(piece));
    if (done > 0) came = SpreadHere(BytesOf(under_way), {});
    if (!came.ok()) reducer_.Wait().IgnoreError();
    RUBATO_RETURN_IF_ERROR(came);
    under_way = piece;
  }
  RUBATO_RETURN_IF_ERROR(reducer_.Wait());
  return SpreadHere(BytesOf(under_way), absl::MakeSpan(heard));
}

absl::Status MachinesPlane::SumBetween(absl::Span<float> piece) {
  const bool tells = piece.data() == between_.last;
  return tcp_.Reduce(piece, between_.format, between_.call, tells ? between_.speeds : nullptr);
}

absl::Status MachinesPlane::Vote(int64_t step, float speed, std::vector<float>& speeds) {
  between_ = {.call = CallWord(Collective::kVote, 0, WireFormat::kFp32, step)};
  std::vector<float> heard(first_of_.size(), 0.0f);
  absl::Status came = SumHere({}, speed, heard);
  if (came.ok() && first()) came = tcp_.Gather(between_.call, heard);
  if (came.ok()) came = SpreadHere({}, absl::MakeSpan(heard));
  RUBATO_RETURN_IF_ERROR(Heed(std::move(came), between_.call));
  speeds = std::move(heard);
  return absl::OkStatus();
}

absl::Status MachinesPlane::Broadcast(absl::Span<char> bytes, int root) {
  const uint64_t call = CallWord(Collective::kBroadcast, bytes.size(), WireFormat::kFp32, root);
  between_ = {.call = call};
  const int source = first_of_[root];
  const bool here = source == ours_[0];
  std::vector<float> heard(first_of_.size(), 0.0f);
  absl::Status came;
  if (!here) came = SumHere({}, 0, heard);  // Whether all here call the same.
  if (here && !alone()) came = shared_->SpreadCall(bytes, SeatOf(root), call);
  if (came.ok() && first()) came = tcp_.Spread(bytes, source, call);
  if (came.ok() && !here) came = SpreadHere(bytes, {});
  return Heed(std::move(came), call);
}

absl::Status MachinesPlane::SumHere(absl::Span<float> values, float speed,
                                    std::vector<float>& speeds) {
  speeds[rank_] = speed;
  if (alone()) return absl::OkStatus();
  std::vector<float> ours(ours_.size(), 0.0f);
  RUBATO_RETURN_IF_ERROR(shared_->SumAtFirst(values, between_.call, speed, &ours));
  for (size_t i = 0; first() && i < ours_.size(); ++i) speeds[ours_[i]] = ours[i];
  return absl::OkStatus();
}

absl::Status MachinesPlane::SpreadHere(absl::Span<char> bytes, absl::Span<float> speeds) {
  return alone() ? absl::OkStatus() : shared_->SpreadSum(bytes, speeds, between_.call);
}

absl::Status MachinesPlane::Heed(absl::Status came, uint64_t call) {
  if (absl::IsInternal(came) && !alone()) shared_->Refuse(call);
  return came;
}

}  // namespace rubato
