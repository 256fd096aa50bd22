// Allreduce for members of several machines, some of which share memory.
//
//     through memory ──▶ at the first of each machine ──TCP──▶ the sum of all ──▶ through memory
//
// Who shares memory with whom follows from the addresses in the view, so all agree on it; the
// first of a machine is the oldest there. Only the firsts have connections to each other, so no
// other link is waited for, and what a machine has to say crosses the network once. In memory sums
// are of 32 bits: what is rounded is a machine's sum, where it leaves, as one member's would be.
//
// Votes do not ride: the whole sum comes to a machine by one member, who may die with it. Whoever
// has it knows that all have come, as over TCP.
#ifndef RUBATO_ADAPTERS_RING_MACHINES_PLANE_H_
#define RUBATO_ADAPTERS_RING_MACHINES_PLANE_H_

#include <cstdint>
#include <vector>

#include "rubato/adapters/ring/data_plane.h"
#include "rubato/adapters/ring/reducer.h"
#include "rubato/adapters/ring/shared_slots.h"
#include "rubato/adapters/ring/tcp_edges.h"

namespace rubato {

class MachinesPlane : public DataPlane {
 public:
  // Both must live longer. `shared` may be null: then this member is a machine of its own.
  MachinesPlane(SharedSlots* shared, TcpEdges& tcp);

  // Whose memory could not be had when Enter() last failed, by rank.
  int denied() const { return ours_[shared_->denied()]; }

  absl::Status Enter(const GroupView& view, int rank, MemberId self) override;
  absl::Status Allreduce(absl::Span<float> values, WireFormat format) override;
  absl::Status AllreduceAndTell(absl::Span<float> values, WireFormat format, float speed,
                                std::vector<float>& speeds) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Vote(int64_t step, float speed, std::vector<float>& speeds) override;

 private:
  struct Between {
    uint64_t call = 0;
    WireFormat format = WireFormat::kFp32;
    const float* last = nullptr;           // The piece that begins here
    std::vector<float>* speeds = nullptr;  // tells these; null: none does.
  };

  bool alone() const { return ours_.size() == 1; }
  bool first() const { return rank_ == ours_[0]; }
  int SeatOf(int rank) const;  // Of one of this machine.
  absl::Status Reduce(absl::Span<float> values, float speed, std::vector<float>& heard);
  // This machine's sum and speeds, at its first.
  absl::Status SumHere(absl::Span<float> values, float speed, std::vector<float>& speeds);
  absl::Status SumBetween(absl::Span<float> piece);
  // What the first came to between the machines, at everyone here.
  absl::Status SpreadHere(absl::Span<char> bytes, absl::Span<float> speeds);
  // Others here may wait for this one: where calls differ, they are told. That a view has ended
  // they know.
  absl::Status Heed(absl::Status came, uint64_t call);

  SharedSlots* const shared_;
  TcpEdges& tcp_;
  std::vector<int> first_of_;  // By rank: the first of its machine.
  std::vector<int> ours_;      // The ranks of this machine.
  int rank_ = 0;
  size_t piece_ = 0;  // So many floats go between the machines at once.
  Between between_;   // The call under way.
  Reducer reducer_;   // Last, so that its thread ends first.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_MACHINES_PLANE_H_
