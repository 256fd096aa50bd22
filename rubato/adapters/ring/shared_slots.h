// Allreduce through shared memory, for members of one machine.
//
// Each process owns one slot, an anonymous memory file that the others map through /proc: nothing
// to name, nothing left behind by a SIGKILL, and a change of view maps the newcomers' slots alone.
//
//     copy in ──▶ all in? ──▶ sum my 1/P over all slots ──▶ all summed? ──▶ copy the slices out
//
// A large buffer goes through in parts, whose stages overlap: one barrier a part.
// A slot's `mark` says how far its owner has come, as (mark of the view, count of barriers);
// waiting is a short spin, then a futex on the mark of whoever is behind. Small buffers take one
// barrier: everyone sums everything, in the order of ranks.
//
// The votes for a step can ride in the last barrier of its reduction: from there on the sum lies in
// slots, which outlive their owners, and each member gets it without anyone's help. Whoever lets go
// of the view first takes its vote back (`withdrawn`), then looks at the votes; whoever wants to
// apply the sum first looks at the votes, then at what was taken back. So either the one sees
// all votes or the other sees that one is gone. Next to a slot's part lies what its owner calls:
// who finds that another calls something else fails, and no such vote counts. Nobody writes to its
// slot in a new view before all members of it have come, with what they still need of the old one
// in hand.
#ifndef RUBATO_ADAPTERS_RING_SHARED_SLOTS_H_
#define RUBATO_ADAPTERS_RING_SHARED_SLOTS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/adapters/ring/data_plane.h"
#include "rubato/adapters/tls/fd.h"

namespace rubato {

class SharedSlots : public DataPlane {
 public:
  // The biggest part of a buffer that goes through at once.
  static constexpr int64_t kPartBytes = 512 << 10;
  // Larger means fewer barriers, smaller that the slots stay in the cache. Two members, each with a
  // core of its own, hardly wait for each other; many do. The same for all, so by the view alone.
  static int64_t PartBytes(int members) { return members <= 2 ? kPartBytes / 4 : kPartBytes; }

  // Whether one that is at `theirs` has come to `mark`; each is the mark of a view << 32 | a count,
  // which in a long view comes round to 0.
  static bool Reached(uint64_t theirs, uint64_t mark);

  static absl::StatusOr<std::unique_ptr<SharedSlots>> Create(const Attention& attention);
  ~SharedSlots() override;

  // Whose memory could not be had when Enter() last failed, by rank.
  int denied() const { return denied_; }
  // To be told to the others, within Endpoint.
  int memory_fd() const { return own_.file.get(); }

  absl::Status Enter(const GroupView& view, int rank, MemberId self) override;
  absl::Status Allreduce(absl::Span<float> values, WireFormat format) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Vote(int64_t step, float speed, std::vector<float>& speeds) override;
  bool carries_votes() const override { return true; }
  absl::StatusOr<bool> AllreduceAndVote(absl::Span<float> values, WireFormat format,
                                        const Voting& voting) override;

  // For a call of several machines (MachinesPlane), whose word is `call`. First the sum of these
  // members at rank 0, who then knows that all of them have come, and how fast each is. Then what
  // rank 0 has of all machines, at everyone: SpreadSum() must follow SumAtFirst().
  absl::Status SumAtFirst(absl::Span<float> values, uint64_t call, float speed,
                          std::vector<float>* speeds);
  absl::Status SpreadSum(absl::Span<char> bytes, absl::Span<float> speeds, uint64_t call);
  // Broadcast().
  absl::Status SpreadCall(absl::Span<char> bytes, int root, uint64_t call);
  // After INTERNAL: others may wait for this member, and fail likewise. Does not wait.
  void Refuse(uint64_t call);

 private:
  struct Slot;  // The shared layout.
  struct Mapped {
    Fd file;
    Slot* slot = nullptr;
  };

  explicit SharedSlots(const Attention& attention) : attention_(attention) {}
  static absl::StatusOr<Mapped> Map(Fd file);
  static void Unmap(Mapped& mapped);

  // Says that this member has come to the next barrier, and waits until all have.
  absl::Status Gather();
  // The same, for what all must call alike; or each as `of` alone, who has compared them before.
  // Casts the vote, if it is to be cast here.
  absl::Status Barrier(int of = -1);
  // Says so alone. Who needs nothing of the others yet may wait at the next barrier.
  void Come();
  // What the others look at when they have come to the next barrier.
  void Tell();
  // The first barrier of a view, before anything is written.
  absl::Status Meet();
  size_t PartsOf(size_t floats) const;
  void ReadSpeeds(std::vector<float>& speeds) const;
  // On any thread: takes the vote back, and says whether all had voted.
  bool Withdraw(uint64_t ballot, uint64_t call);
  // Whether all votes stand that were seen at the last barrier.
  bool Stands(uint64_t ballot) const;
  // Whether all slots are still as they were at the last barrier.
  bool Intact() const;
  uint64_t Count(uint32_t count) const { return static_cast<uint64_t>(mark_) << 32 | count; }
  absl::Status WaitFor(Slot& slot, uint64_t mark);
  absl::Status Reduce(absl::Span<float> values, WireFormat format);
  absl::Status ReduceSmall(absl::Span<float> values);
  // The sum at everyone who `wants` it.
  absl::Status ReduceParts(absl::Span<float> values, bool wants);
  // The sum at the first, of buffers that go through at once; of two members', in parts.
  absl::Status GiveToFirst(absl::Span<float> values);
  absl::Status AddOther(absl::Span<float> values);
  absl::Status SpreadFrom(int root, absl::Span<char> bytes, absl::Span<float> speeds, int of,
                          uint64_t call);
  void HandIn(absl::Span<const float> part);
  void SumMine(size_t part_size);
  void FetchSums(absl::Span<float> part);

  const Attention& attention_;
  Mapped own_;
  std::map<MemberId, Mapped> others_;
  uint64_t view_ = 0;
  uint32_t mark_ = 0;   // Of the view.
  uint32_t count_ = 0;  // Barriers of this view.
  int rank_ = 0;
  int denied_ = -1;
  std::vector<Slot*> slots_;  // By rank.
  int spins_ = 0;
  bool met_ = false;     // The first barrier of the view is behind.
  uint64_t call_ = 0;    // The one under way, see CallWord.
  uint64_t ballot_ = 0;  // The vote to cast with the last barrier; 0: none.
  float speed_ = 0;      // What to tell with it.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_SHARED_SLOTS_H_
