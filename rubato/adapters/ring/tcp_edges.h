// Allreduce over TCP. Each socket carries bulk data in one direction only, so that small messages
// never wait behind an acknowledgement of the other direction.
//
// Data goes in frames that name their view and operation. A change of view keeps the sockets to
// members who stay: a frame cut off by it is filled up by its sender and thrown away by its
// receiver, who finds the next header where it belongs. The word at a frame's end says which it
// was, since the receiver may not have heard of the change yet. Chunks of a slice are passed on
// as they come in, so that all links of the ring work at once; members of one machine stand side by
// side in it. What a Stream has taken counts as
// sent, though it may hold some of it back (TLS does, in whole records): an operation ends when
// all is on its way.
#ifndef RUBATO_ADAPTERS_RING_TCP_EDGES_H_
#define RUBATO_ADAPTERS_RING_TCP_EDGES_H_

#include <poll.h>

#include <array>
#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/adapters/ring/data_plane.h"
#include "rubato/adapters/ring/edge_network.h"
#include "rubato/adapters/tls/fd.h"
#include "rubato/adapters/tls/stream.h"
#include "rubato/base/mutex.h"
#include "rubato/ring/plan.h"

namespace rubato {

// The first bytes on every connection.
struct EdgeHello {
  static constexpr uint64_t kEdge = 0x6567646532756272;      // Bulk data of a view.
  static constexpr uint64_t kState = 0x7461747372756272;     // A newcomer asks for the state.
  static constexpr uint64_t kContract = 0x7274636372756272;  // What do you train? See contract.h.
  uint64_t kind = 0;
  uint64_t group = 0;
  int64_t from = 0;
  int64_t to = 0;
  int64_t min_step = 0;  // kState alone.
  uint64_t mark = 0;     // kState alone: of the view that both must be in.
};

// Planted by tests, to show that they would notice.
enum class EdgeBug : uint8_t {
  kNone,
  kNoEndWord,  // What a change of view cut off is taken for a whole frame.
};

class TcpEdges : public DataPlane {
 public:
  // `network` must live longer. `lost` is told of members whose connection broke, was refused or is
  // silent (kSocket, kRefused, kLink).
  // `bug` is for tests alone.
  TcpEdges(const Attention& attention, uint64_t group, EdgeNetwork& network,
           std::function<void(MemberId, LossReason)> lost, EdgeBug bug = EdgeBug::kNone);
  ~TcpEdges() override;

  // A connection from `member` to the life `to` came in. Called by the control thread.
  void Arrive(MemberId member, MemberId to, std::unique_ptr<Stream> stream);

  absl::Status Enter(const GroupView& view, int rank, MemberId self) override;
  // The same where only some speak to each other, each for others too (MachinesPlane). `order` are
  // their ranks as they are to stand in the ring. What there is to other members stays.
  void EnterAmong(const GroupView& view, int rank, MemberId self, std::vector<int> order);
  // What they call, as parts of a larger call whose word is `call`. `speeds` are by rank, those
  // of others 0, and then everyone's; null: none are told.
  absl::Status Reduce(absl::Span<float> values, WireFormat format, uint64_t call,
                      std::vector<float>* speeds);
  absl::Status Gather(uint64_t call, std::vector<float>& speeds);
  absl::Status Spread(absl::Span<char> bytes, int root, uint64_t call);

  absl::Status Allreduce(absl::Span<float> values, WireFormat format) override;
  absl::Status AllreduceAndTell(absl::Span<float> values, WireFormat format, float speed,
                                std::vector<float>& speeds) override;
  absl::Status Broadcast(absl::Span<char> bytes, int root) override;
  absl::Status Vote(int64_t step, float speed, std::vector<float>& speeds) override;

 private:
  // A frame is a number of whole lines, and so is each of its parts: where numbers lie in memory as
  // allocators place them, no copy to or from the wire moves them up by less than 16 bytes within
  // their page. The kernel's copy is 15 times slower then on some processors (AMD Zen 4).
  static constexpr size_t kLine = 64;
  // What a frame ends with. One that was cut off ends with 0.
  static constexpr uint32_t kWhole = 0x656c6f77;
  struct Frame {
    uint64_t view = 0;
    uint32_t mark = 0;  // Of the view; see GroupView::Mark.
    uint32_t operation = 0;
    uint64_t bytes = 0;  // Of the payload, between the header and the tail.
    uint64_t call = 0;   // See CallWord.
    std::array<uint64_t, 4> unused = {};

    uint64_t TailBytes() const;
    uint64_t Total() const { return sizeof(Frame) + bytes + TailBytes(); }
  };
  static_assert(sizeof(Frame) == kLine);
  // Its last TailBytes() follow the payload.
  struct Tail {
    std::array<char, kLine> filler = {};
    uint32_t word = kWhole;

    char* Last(uint64_t bytes) { return reinterpret_cast<char*>(this) + sizeof(Tail) - bytes; }
  };
  struct Out {
    std::unique_ptr<Stream> stream;
    EdgeHello hello;
    size_t hello_sent = 0;
    uint64_t view = 0;      // The last that needed it, or in which it said anything.
    Frame cut;              // The frame that was cut off,
    uint64_t cut_sent = 0;  // and how much of it has left; 0 if none was.
    bool used = false;      // By the operation under way.
  };
  struct In {
    std::unique_ptr<Stream> stream;
    uint64_t view = 0;  // The last of which it brought anything.
    Frame frame;
    std::vector<float> told;  // The speeds in the frame, if it has any.
    Tail tail;
    size_t header_got = 0;
    uint64_t payload_got = 0;  // And of the tail.
  };
  // What one operation sends and receives, each in order.
  struct SendItem {
    int to = 0;
    Slice slice;
    bool final = false;
    size_t needs = 0;  // How many receipts must have come before.
  };
  struct ReceiveItem {
    int from = 0;
    Slice slice;
    bool reduce = false;
  };
  struct Operation;

  // This member's part, among members in the ring's order.
  std::vector<Exchange> PlanInOrder(Algorithm algorithm, int64_t elements) const;
  static void Chunk(const std::vector<Exchange>& plan, int64_t chunk, std::vector<SendItem>& sends,
                    std::vector<ReceiveItem>& receives);
  // Where `rank` stands in the ring.
  int SeatOf(int rank) const;
  absl::Status Run(Operation& operation);
  absl::Status Complete(Operation& operation);
  void StartFrame(Operation& operation, const SendItem& item);
  // Whether all that comes before the next frame has left: the greeting, and the rest of a frame
  // that was cut off.
  static bool Prepare(Out& out);
  // Whether nothing of the operation under way is held back. What is left of earlier ones may have
  // to wait until its receiver needs something of this member again.
  bool Flush();
  absl::StatusOr<bool> TrySend(Operation& operation);
  absl::StatusOr<bool> TryReceive(Operation& operation);
  absl::Status Wait(const Operation& operation);
  // Calls if need be. What is only to find out whether the other can be called may break.
  absl::StatusOr<Out*> Connected(int rank, bool needed);
  In* Arrived(int rank);
  // A connection broke. If this view has not used it, that is a matter of the last one, in which it
  // was told of, and another takes its place; unless nobody is at the other end any more.
  template <typename Edge>
  absl::StatusOr<bool> Broken(std::map<MemberId, Edge>& edges, int rank);
  // Waits until the view ends, since `member` is out of reach.
  absl::Status Lose(int rank, LossReason how);
  // The rank of one whom `operation` needs and from whom nothing comes back; -1: all is well.
  int FindSilent(const Operation& operation);
  bool Live() const { return attention_.live_view.load(std::memory_order_acquire) == view_.number; }

  const Attention& attention_;
  const uint64_t group_;
  EdgeNetwork& network_;
  MemberId self_;
  const std::function<void(MemberId, LossReason)> lost_;
  const EdgeBug bug_;
  GroupView view_;
  int rank_ = 0;
  std::vector<int> order_;  // Ranks of who takes part, as they stand in the ring: see RingOrder.
  uint32_t mark_ = 0;
  uint32_t operation_ = 0;
  std::map<MemberId, Out> out_;
  std::map<MemberId, In> in_;
  std::vector<char> scratch_;
  std::vector<char> packed_;
  std::vector<pollfd> polls_;
  Fd arrived_fd_;
  std::atomic<bool> has_arrivals_{false};
  Mutex mu_;
  std::map<std::pair<MemberId, MemberId>, std::unique_ptr<Stream>> arrivals_ ABSL_GUARDED_BY(mu_);
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_TCP_EDGES_H_
