// Data-parallel training whose members may vanish or appear at any moment: the library for a loop
// of one's own.
//
//     auto group = ElasticGroup::Open({.join = {"10.0.0.7:4000"}, .microbatches = 32,
//                                      .state = {weights, momentum}, .apply = sgd_step});
//     while ((*group)->step() < steps) {                       // Or without an end.
//       absl::StatusOr<StepPlan> plan = (*group)->BeginStep();
//       ... gradients of microbatches [plan->quota.begin, plan->quota.end) of plan->step ...
//       if (!(*group)->AllreduceLast(gradients).ok()) continue;  // Someone is gone: again.
//       (*group)->Commit();                                      // Calls apply, at all or none.
//     }
//     (*group)->SayFinished();                // To whoever came too late; then let go of the
//     group.
//
// Or bucket by bucket, while backward still computes the next: StartAllreduce(bucket) as soon as it
// is there, AllreduceLast() for the last, and Commit().
//
// Guarantees: all members apply the same bits for the same step or none of them does; a step's
// microbatches are each counted once, whoever computes them; a newcomer copies state from a member
// who has it, beside training, and is never copied from before. Members of one
// machine sum through shared memory, and the first of each machine over TCP with those of others.
//
// All sums, broadcasts and barriers are part of a step: FAILED_PRECONDITION, and nothing happens,
// if no BeginStep came before them or the step's AllreduceLast is behind, which only Commit may
// follow. All members make the same calls in the same order, with as many bytes. Where a loop has a
// mistake and does not, calls fail with INTERNAL, nothing of the step counts, and BeginStep says it
// again until the view ends; over TCP some may only see that one who was told so has gone.
//
// A loop may end right after a Commit. The group's destructor stays until every member of the view
// has finished this one's last step, or is gone, 10 seconds at most: a round trip where all end
// with one step. Without that those who have the step's sum, but not yet the last vote, would miss
// this member, and might be too few to agree that the step counts. Whoever is killed stays for
// nobody: then the others need a majority to go on, or `quorum: any`.
//
// One thread trains and makes all calls; the group's own keep the membership and reduce buckets.
#ifndef RUBATO_ADAPTERS_RING_ELASTIC_GROUP_H_
#define RUBATO_ADAPTERS_RING_ELASTIC_GROUP_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "absl/types/span.h"
#include "rubato/membership/issued_views.h"
#include "rubato/membership/view.h"
#include "rubato/membership/views.h"
#include "rubato/ring/canonical.h"
#include "rubato/ring/kernels.h"
#include "rubato/ring/quota.h"
#include "rubato/ring/state_snapshot.h"

namespace rubato {

enum class GroupNetwork : uint8_t { kLoopback, kLan, kWan };

// The group has gone on without this member, which begins a new life in it.
struct Parting {
  int64_t step = -1;  // That the others went on from; -1: not known.
  // Whom the view left out that did so, this member among them, as those say who went on. Empty:
  // nobody who knows has told.
  std::vector<Departure> out;
  std::string why;  // If it was this member's own doing.
};

struct GroupOptions {
  std::string listen = "127.0.0.1:0";  // Port 0: any.
  // Addresses of members; empty founds a new group. Whoever restarts must join, not found.
  std::vector<std::string> join;
  // Set where a master issues the views (ViewAuthority): takes what this member tells it. Called on
  // the group's thread; must neither block nor call the group. What the master answers goes to
  // Obey(), `join` is not used, and the master chooses the founder.
  std::function<void(const ViewReport&)> report;
  absl::Duration report_period = absl::Milliseconds(500);  // A quarter of the master's lease.
  std::string name =
      "rubato";  // With `secret`, keeps strangers out; both must be the same for all.
  std::string secret;
  // Where there is a secret, all that goes between members over TCP and UDP is encrypted and comes
  // from one who knows it; false leaves out both, and the secret in plain sight, for a network
  // that one trusts. The same for all: who differs is refused. Shared memory stays as it is.
  bool encrypt = true;
  // What else must be the same for all, as "key: value" a line: BeginStep of a newcomer that
  // differs fails and names the line. Name, microbatches, wire and sizes of `state` always count.
  std::string contract;
  GroupNetwork network = GroupNetwork::kLoopback;
  // Over TCP: a member that a sum is waited for, and whose machine has not answered for so long on
  // that very connection, is not reached any more, though others may vouch for it. At least 2 s,
  // and 10 s with kWan. If a new view of the same members does not mend it, one makes room.
  absl::Duration lease = absl::Seconds(2);
  Quorum quorum = Quorum::kMajority;
  WireFormat wire = WireFormat::kFp32;
  bool shared_memory = true;
  // Members that say another name here are taken for another machine's, whatever they share: they
  // look neither into each other's memory nor at each other's processes. To try out what happens
  // between machines, and to measure it.
  std::string machine;
  int microbatches = 1;    // Of one step, in all: the global batch.
  int64_t first_step = 0;  // A founder's state is that after this step; -1: it has none.
  // Where votes do not ride in the sum (between machines): Commit applies this member's sum at
  // once, and that all have it shows in the next step's, which is when committed() moves on. Saves
  // a round of messages and the wait for the slowest. The price: a death at that very moment parts
  // those who have applied the step from those who lack it, and the fewer of them copy the state
  // anew; so nobody may end training, or show it to the world, before committed() says so, which
  // takes a step more. Needs AllreduceLast; the same for all. docs/design/0004-allreduce.md has the
  // proof.
  bool early_apply = false;
  absl::Duration verdict_timeout = absl::Seconds(60);  // How long Commit waits for a next view.
  // What a newcomer copies: the same pieces, in the same order and sizes, at every member. While it
  // is learning() they may be half a copy between two steps. Pieces above 16 KB are copied while
  // the loop computes, so from BeginStep until Commit returns only `apply` may change them.
  std::vector<absl::Span<char>> state;
  // A newcomer keeps the sums of the steps that pass while it copies: so many bytes of them in
  // memory, what is more in a file without a name in `kept_folder`, which grows by a gradient a
  // step until the copy is level. The others wait for neither, but for a disk that is slower than
  // they make gradients. 0: twice the bytes of `state`, and at least 256 MB; empty: the system's
  // folder for temporary files, which may be memory too.
  int64_t kept_bytes_max = 0;
  std::string kept_folder;
  // Applies the buffers last given to Allreduce to the state. Called by Commit, and for the steps
  // that a newcomer makes up for.
  std::function<void()> apply;
  // `apply` calls BeforeChange() for what it changes of `state`, just before it does. What it
  // leaves alone is then copied at leisure. Else all is taken to change with every step: what is
  // not copied by then, apply waits for.
  bool names_changes = false;
  // After each change of view, on the training thread, between two steps.
  std::function<void(const GroupView&)> on_change;
  // After each parting, on the training thread, before anything of the new life.
  std::function<void(const Parting&)> on_parting;
};

struct StepPlan {
  int64_t step = 0;
  uint64_t view = 0;
  Quota quota;  // This member's microbatches; none while it copies the state.
  int rank = 0;
  int size = 0;
  int computing = 0;  // How many members have any.
};

// What a change of view cost, and why it was, for the record. Times are of a clock that only runs
// forward; their differences are what counts.
struct ChangeTimes {
  uint64_t view = 0;
  absl::Time noticed;           // This member let go of the view before: the end of "detect".
  absl::Time agreed;            // The new view was there.
  absl::Time entered;           // Its connections were.
  absl::Time resumed;           // Its first step was committed: the end of "redo". Past until then.
  bool redone = false;          // The step under way had to be computed again.
  std::vector<Loss> losses;     // Whom this member missed when it let go, and how it noticed.
  std::vector<Departure> gone;  // Who is not in this view any more.
};

class ElasticGroup {
 public:
  // UNAVAILABLE if `listen` cannot be had. Does not wait for the group: BeginStep does.
  static absl::StatusOr<std::unique_ptr<ElasticGroup>> Open(GroupOptions options);
  virtual ~ElasticGroup() = default;  // May wait for others: see above.

  // Waits for a view, and says what to compute. DEADLINE_EXCEEDED if there is none within
  // `timeout`, as when a majority is gone; CANCELLED after Leave(); FAILED_PRECONDITION if the
  // group that it should join trains something else, or knows another secret; INTERNAL if members
  // of this view do not make the same calls; RESOURCE_EXHAUSTED if this member copies the state and
  // `kept_folder` has no room for what passes meanwhile. A step under way may be begun again, as
  // after ABORTED, but for one whose AllreduceLast is done: FAILED_PRECONDITION, Commit comes
  // first.
  virtual absl::StatusOr<StepPlan> BeginStep(absl::Duration timeout = absl::Seconds(60)) = 0;
  // The sum over all members, in place. Give the same buffers every step. ABORTED if the view
  // ended: begin the step again. A member without a quota adds nothing, whatever is in its buffer.
  virtual absl::Status Allreduce(absl::Span<float> values) = 0;
  // The last one of a step: it carries the votes where it can (within one machine, or with
  // `early_apply`), so that Commit, which must come next, need not wait for them.
  virtual absl::Status AllreduceLast(absl::Span<float> values) = 0;
  // The same in fp32, whatever `wire` is: for counts, which must not be rounded.
  virtual absl::Status AllreduceLastExactly(absl::Span<float> values) = 0;
  // Allreduce beside the caller, who goes on computing. Buckets are reduced in the order of these
  // calls, which must be the same at all members; they must stay where they are until Wait(). That
  // the view ended is told there.
  virtual absl::Status StartAllreduce(absl::Span<float> values) = 0;
  // Until all that was started is done. Commit does this itself.
  virtual absl::Status Wait() = 0;
  // The step under way says nothing of this member's speed: it computes none of its microbatches.
  virtual void DoNotMeasure() = 0;
  // Deterministic mode: the sum of all microbatches in an order of additions that belongs to their
  // numbers, so that it has the same bits for every number of workers and every division among
  // them. `mine` is the sum over this member's quota. Always fp32. Moves as many buffers as there
  // are subtrees, one a member at best and 2 log2(microbatches) at worst: for proofs, not for
  // speed.
  virtual absl::Status AllreduceCanonical(const CanonicalSum& mine, absl::Span<float> sum) = 0;
  // Rank `root`'s bytes, at everyone.
  virtual absl::Status Broadcast(absl::Span<char> bytes, int root) = 0;
  // All have come here. ABORTED if the view ended first.
  virtual absl::Status Barrier() = 0;
  // Ends the step: true if all members of the view apply it, and `apply` has run here; false if
  // none does, and it must begin again. DEADLINE_EXCEEDED if that cannot be known: call it again to
  // wait longer, or give up and start from a checkpoint. FAILED_PRECONDITION, and nothing happens,
  // if no BeginStep came before it, or a Commit has ended that step.
  virtual absl::StatusOr<bool> Commit() = 0;

  // Of `names_changes`. `bytes` need not be of the state.
  virtual void BeforeChange(absl::Span<const char> bytes) = 0;
  // The state as it is now, after step(), copied while training goes on: call its Finish() on
  // another thread, with the group or after it. Not while learning(), and not from `apply`.
  virtual std::shared_ptr<StateSnapshot> TakeSnapshot() = 0;

  // The last step in the state here; any later view begins at it or after, unless committed() is
  // still behind. While learning() it is that of the state to be replaced, and then of the copy as
  // it catches up; -1: there is none, or half of one.
  virtual int64_t step() const = 0;
  // The last step that can no longer be undone, even by a member that only takes part and has yet
  // to copy the state: what may be written to a checkpoint or a ledger.
  virtual int64_t committed() const = 0;
  // How often the group has gone on without this member, who then began a new life in it, or
  // without its state, which it then copied anew (`early_apply`); and the step that it went on from
  // the last time, also after Leave(); -1 if that is not known. What this member had computed for
  // later steps was in vain, whether it had applied them or not.
  virtual int partings() const = 0;
  virtual int64_t parted_at() const = 0;
  virtual GroupView view() const = 0;
  virtual bool learning() const = 0;
  virtual std::string address() const = 0;  // For others to join.
  // Whether what leaves the machine is: there is a secret, and `encrypt` is not off.
  virtual bool encrypted() const = 0;
  virtual ChangeTimes last_change() const = 0;
  // This member's speed over the median of all who hold the state, as of the last step; 1 while
  // there is nothing to compare. What StragglerWatch wants to know.
  virtual double pace() const = 0;

  // Asks to go. The others still need this member for the running step: go on training until
  // BeginStep returns CANCELLED. Nobody loses a step by it.
  virtual void Leave() = 0;
  // Training is over, and committed() says so: tells everyone who may still wait for this group.
  virtual void SayFinished() = 0;
  // Whether one of the group has said so, to this member or to an earlier life of it.
  virtual bool told_finished() const = 0;
  // How long it is that one was heard of who could take this member further; infinite: never.
  virtual absl::Duration unheard() const = 0;
  // Told so, and deserted: see Company::Over.
  virtual bool over() const = 0;
  // Members of the view who seem gone: why there is no view to train in, if there is none.
  virtual std::vector<Departure> missed() const = 0;
  // Who came and fell silent before any view had it; each once.
  virtual std::vector<Departure> TakeLostNewcomers() = 0;
  // Where another group of the same job was heard of, founded apart from this one; empty: nowhere.
  virtual std::string stranger() const = 0;

  // What the master says, from any thread.
  virtual void Obey(const ViewOrder& order) = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_ELASTIC_GROUP_H_
