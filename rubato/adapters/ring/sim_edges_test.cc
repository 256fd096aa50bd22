// The real TcpEdges over streams that obey a seed: short reads and writes, bytes that arrive after
// their sender's death, connections cut at any byte, members a view ahead of others, some of whom
// have not heard of it, and members who were left out of the view and do not know it yet.
//
// Each process is a thread, but one of them runs at a time: whoever would wait hands its turn to
// the world, which moves bytes, ends views and kills by chance, and gives the turn to someone else.
// So a seed replays, with TLS too (other keys, the same lengths).
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <ucontext.h>

#include <algorithm>
#include <cstring>
#include <iterator>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

constexpr uint64_t kGroup = 7;
constexpr int kFirstFd = 1 << 20;  // No file has so high a number here.
constexpr int kOperations = 6;     // Of a view.
constexpr int kViews = 8;          // Then there are no more faults.
constexpr int kTurnsMax = 1'000'000;
constexpr size_t kStackBytes = 512 << 10;
constexpr int kPatience = 100;  // So often a control thread looks for a greeting in vain.

// One direction of a connection.
struct Pipe {
  std::string bytes;       // On their way,
  size_t arrived = 0;      // and so many of them there.
  bool closed = false;     // By its writer: what is on its way still comes.
  bool cut = false;        // What has not arrived never will.
  bool abandoned = false;  // By its reader.
};
struct Wire {
  int from, to;   // Processes.
  Pipe pipes[2];  // By the side that writes.

  bool quiet() const { return pipes[0].bytes.empty() && pipes[1].bytes.empty(); }
};

class SimStream : public Stream {
 public:
  SimStream(Rng& rng, std::shared_ptr<Wire> wire, int side, int fd)
      : rng_(rng), wire_(std::move(wire)), side_(side), fd_(fd) {}
  ~SimStream() override {
    out().closed = true;
    in().abandoned = true;
  }
  int64_t Read(absl::Span<const iovec> pieces) override {
    wants_ = POLLIN;
    if (in().arrived == 0) {
      if (in().cut) return kBroken;
      return in().closed && in().bytes.empty() ? kClosed : kWait;
    }
    const size_t most = Some(in().arrived);
    size_t done = 0;
    for (const iovec& piece : pieces) {
      const size_t n = std::min(piece.iov_len, most - done);
      if (n > 0) std::memcpy(piece.iov_base, in().bytes.data() + done, n);
      done += n;
    }
    in().bytes.erase(0, done);
    in().arrived -= done;
    return static_cast<int64_t>(done);
  }
  int64_t Write(absl::Span<const iovec> pieces) override {
    wants_ = POLLOUT;
    if (out().cut || out().abandoned || out().closed) return kBroken;
    const size_t room = kRoom - std::min(kRoom, out().bytes.size());
    if (room == 0 || rng_.Chance(0.1)) return kWait;
    const size_t most = Some(room);
    size_t done = 0;
    for (const iovec& piece : pieces) {
      const size_t n = std::min(piece.iov_len, most - done);
      out().bytes.append(static_cast<const char*>(piece.iov_base), n);
      done += n;
    }
    return static_cast<int64_t>(done);
  }
  bool Flush() override { return true; }
  void Finish() override { out().closed = true; }
  int16_t wants() const override { return wants_; }
  int fd() const override { return fd_; }
  bool gone() const override {
    const Pipe& in = wire_->pipes[1 - side_];
    return in.closed || in.cut || wire_->pipes[side_].abandoned;
  }
  bool trusted() const override { return true; }

 private:
  static constexpr size_t kRoom = 40'000;
  Pipe& out() { return wire_->pipes[side_]; }
  Pipe& in() { return wire_->pipes[1 - side_]; }
  // From one byte to all of them, every size as likely as another of its length.
  size_t Some(size_t all) {
    const size_t most = size_t{1} << rng_.Below(17);
    return 1 + rng_.Below(std::min(all, most));
  }

  Rng& rng_;
  const std::shared_ptr<Wire> wire_;
  const int side_;
  const int fd_;
  int16_t wants_ = 0;
};

// A number that only its place decides, small enough that sums are exact in 16 bits.
float ValueAt(uint64_t call, int rank, size_t element) {
  const uint64_t chance = call * 2654435761u + static_cast<uint64_t>(rank) * 40503u;
  return static_cast<float>(((chance >> 7) + element * (chance >> 40 | 1)) % 32);
}

// On one of two machines, so that the ring's order is not that of age.
std::string AddressOf(int process) {
  return absl::StrCat(process, ":1;machine", process % 2, ";", process, ";-1");
}

class World;

class Process : public EdgeNetwork {
 public:
  explicit Process(World& world);
  // Goes on where it left off, until it waits again.
  void TakeTurn() { swapcontext(&world_context_, &context_); }

  absl::StatusOr<std::unique_ptr<Stream>> Connect(const std::string& address, int event_fd,
                                                  const std::function<bool()>& live) override;
  bool Refuses(const std::string& address) override;
  void Wait(absl::Span<pollfd> fds) override;

  // The world's side.
  void EnterNext(const GroupView& view, MemberId as) { next_ = {view, as}; }
  void LetGo() {
    next_.reset();
    attention_.live_view = 0;
  }
  void Kill() {
    dead_ = true;
    LetGo();
  }
  bool dead() const { return dead_; }
  bool ended() const { return ended_; }
  // It has made all calls of this view, and they were right.
  bool Finished(uint64_t view) const { return finished_ == view; }
  bool complained() const { return complained_; }
  TcpEdges& edges() { return *edges_; }

 private:
  static void Begin(unsigned high, unsigned low);  // Of a pointer to it.
  void Main();
  void Yield() { swapcontext(&context_, &world_context_); }
  void Train(const GroupView& view, int rank);
  absl::Status Call(const GroupView& view, int rank, int operation);
  bool Live(const GroupView& view) const { return attention_.live_view == view.number; }

  World& world_;
  Attention attention_;
  std::optional<std::pair<GroupView, MemberId>> next_;
  uint64_t finished_ = 0;
  GroupView view_;           // The last it entered,
  bool complained_ = false;  // and whether it complained in it.
  bool dead_ = false;
  bool ended_ = false;
  std::unique_ptr<TcpEdges> edges_;
  std::vector<char> stack_;
  ucontext_t context_, world_context_;
};

class World {
 public:
  World(uint64_t seed, bool tls, EdgeBug bug = EdgeBug::kNone) : bug_(bug), rng_(seed) {
    if (tls) tls_ = std::make_unique<TlsLinks>("between us");
    const int count = 2 + static_cast<int>(rng_.Below(3));
    for (int i = 0; i < count; ++i) AddMember(Start());
    view_.holders = view_.size();
    view_.number = 1;
    for (const int process : Members()) entering_.insert(process);
  }
  ~World() {
    over_ = true;
    for (auto& process : processes_) process->LetGo();
    for (size_t i = 0; i < processes_.size(); ++i) {
      while (!processes_[i]->ended()) processes_[i]->TakeTurn();
    }
    processes_.clear();
  }

  // Through all views; false if someone waits for ever in the last.
  bool Run() {
    for (int turn = 0; turn < kTurnsMax; ++turn) {
      if (!failed_.empty()) return true;
      if (view_.number > kViews && Settled()) return true;
      Happen();
      Process& process = *processes_[rng_.Below(processes_.size())];
      if (!process.ended()) process.TakeTurn();
    }
    return false;
  }

  // ---- what processes see of it ----
  absl::StatusOr<std::unique_ptr<Stream>> Connect(const Process* from, int to) {
    if (processes_[to]->dead()) return absl::FailedPreconditionError("refused");
    auto wire = std::make_shared<Wire>(Wire{NumberOf(from), to});
    wires_.push_back(wire);
    const int fd = kFirstFd + 2 * static_cast<int>(wires_.size() - 1);
    greetings_.push_back({wire, Secured(wire, 1, fd + 1, TlsSide::kAccepts)});
    return Secured(wire, 0, fd, TlsSide::kConnects);
  }
  bool dead(int process) const { return processes_[process]->dead(); }
  bool Gone(int fd) {
    const int at = fd - kFirstFd;
    if (at < 0 || at >= 2 * static_cast<int>(wires_.size())) return false;
    const Wire& wire = *wires_[at / 2];
    const Pipe& in = wire.pipes[1 - at % 2];
    return in.closed || in.cut || wire.pipes[at % 2].abandoned;
  }
  // Two who complain of each other once too often have to part, so it must not be for nothing, nor
  // twice for one accident. Of a view that has ended nobody would hear.
  void Complain(const Process* from, int of, uint64_t view) {
    const int who = NumberOf(from);
    if (view != view_.number || restless_.contains(who) || restless_.contains(of)) return;
    std::set<uint64_t>& views = complaints_[std::minmax(who, of)];
    views.insert(view);
    if (static_cast<int>(views.size()) > accidents_[std::minmax(who, of)]) {
      Fail(absl::StrCat(who, " complains of ", of, " in view ", view, " for nothing"));
    }
  }
  void Fail(const std::string& why) {
    if (failed_.empty()) failed_ = why;
  }
  const std::string& failed() const { return failed_; }  // Why; empty: it has not.
  EdgeBug bug() const { return bug_; }
  bool over() const { return over_; }
  int64_t sums() const { return sums_; }
  void CountSum() { ++sums_; }

 private:
  struct Greeting {
    std::shared_ptr<Wire> wire;
    std::unique_ptr<Stream> stream;
    EdgeHello hello;
    size_t got = 0;
    int looked = 0;  // In vain, since anything was on its way.
  };

  int NumberOf(const Process* process) const {
    const auto is = [&](const auto& other) { return other.get() == process; };
    return static_cast<int>(std::find_if(processes_.begin(), processes_.end(), is) -
                            processes_.begin());
  }

  std::unique_ptr<Stream> Secured(const std::shared_ptr<Wire>& wire, int side, int fd,
                                  TlsSide tls_side) {
    auto plain = std::make_unique<SimStream>(rng_, wire, side, fd);
    return tls_ ? tls_->Secure(std::move(plain), tls_side) : std::move(plain);
  }
  int Start() {
    processes_.push_back(std::make_unique<Process>(*this));
    return static_cast<int>(processes_.size()) - 1;
  }
  void AddMember(int process) { view_.members.push_back({MemberId(++lives_), AddressOf(process)}); }
  std::vector<int> Members() const {
    std::vector<int> processes;
    for (const GroupMember& member : view_.members) processes.push_back(std::stoi(member.address));
    return processes;
  }
  bool Settled() const {
    if (!leaving_.empty() || !entering_.empty()) return false;
    const std::vector<int> members = Members();
    return std::all_of(members.begin(), members.end(),
                       [&](int p) { return processes_[p]->Finished(view_.number); });
  }

  void Happen() {
    for (int i = 0; i < 3; ++i) Deliver();
    Greet();
    ChangeView();
    if (view_.number > kViews) return;
    if (rng_.Chance(0.0005)) Cut();
    if (rng_.Chance(0.0005)) KillSomeone();
  }

  void Deliver() {
    if (wires_.empty()) return;
    Pipe& pipe = wires_[rng_.Below(wires_.size())]->pipes[rng_.Below(2)];
    const size_t left = pipe.bytes.size() - pipe.arrived;
    if (left == 0 || pipe.cut) return;
    pipe.arrived += rng_.Chance(0.5) ? left : 1 + rng_.Below(left);
  }

  // As control threads do.
  void Greet() {
    if (greetings_.empty()) return;
    const size_t at = rng_.Below(greetings_.size());
    Greeting& greeting = greetings_[at];
    const int64_t n = greeting.stream->ReadBytes(
        reinterpret_cast<char*>(&greeting.hello) + greeting.got, sizeof(EdgeHello) - greeting.got);
    if (n > 0) greeting.got += static_cast<size_t>(n);
    const int to = greeting.wire->to;
    const bool whole = greeting.got == sizeof(EdgeHello);
    greeting.looked = greeting.wire->quiet() ? greeting.looked + 1 : 0;
    if (n >= 0 && !whole && !dead(to) && greeting.looked < kPatience) return;
    if (whole && !dead(to)) {
      if (greeting.hello.group != kGroup) Fail("a greeting of another group");
      processes_[to]->edges().Arrive(MemberId(greeting.hello.from), MemberId(greeting.hello.to),
                                     std::move(greeting.stream));
    }
    greetings_.erase(greetings_.begin() + static_cast<std::ptrdiff_t>(at));
  }

  // A cable, not a process: both ends see it break, after what has arrived.
  void Cut() {
    if (wires_.empty()) return;
    Wire& wire = *wires_[rng_.Below(wires_.size())];
    ++accidents_[std::minmax(wire.from, wire.to)];
    for (Pipe& pipe : wire.pipes) Break(pipe);
  }
  void Break(Pipe& pipe) {
    pipe.arrived += rng_.Below(pipe.bytes.size() - pipe.arrived + 1);
    pipe.bytes.resize(pipe.arrived);
    pipe.cut = true;
  }

  void KillSomeone() {
    const std::vector<int> members = Members();
    if (members.size() < 2) return;
    const int victim = members[rng_.Below(members.size())];
    if (dead(victim)) return;
    restless_.insert(victim);
    processes_[victim]
        ->Kill();  // Its sockets are closed when it has the turn; its bytes still come.
  }

  // Members let go of a view one by one, and enter the next one by one: first those awaited.
  void ChangeView() {
    // Whoever nobody waits for may hear of it much later.
    if (!leaving_.empty() && rng_.Chance(awaited_.empty() ? 0.003 : 0.05)) {
      const int process = Draw(leaving_);
      processes_[process]->LetGo();
      if (!zombies_.contains(process)) awaited_.erase(process);
    }
    std::set<int> ready;
    std::set_difference(entering_.begin(), entering_.end(), leaving_.begin(), leaving_.end(),
                        std::inserter(ready, ready.end()));
    if (!ready.empty() && awaited_.empty() && rng_.Chance(0.05)) {
      const int process = Draw(ready);
      entering_.erase(process);
      const auto me = std::find_if(
          view_.members.begin(), view_.members.end(),
          [&](const GroupMember& member) { return member.address == AddressOf(process); });
      processes_[process]->EnterNext(view_, me->id);
    }
    if (!entering_.empty() || !awaited_.empty()) return;
    const std::vector<int> members = Members();
    const bool must = std::any_of(members.begin(), members.end(),
                                  [&](int p) { return dead(p) || processes_[p]->complained(); });
    const bool may = view_.number <= kViews && (Settled() || rng_.Chance(0.002));
    if (must || may) Propose();
  }
  int Draw(std::set<int>& from) {
    auto it = from.begin();
    std::advance(it, rng_.Below(from.size()));
    const int drawn = *it;
    from.erase(it);
    return drawn;
  }

  void Propose() {
    GroupView next;
    next.parent = view_.Mark();
    next.number = view_.number + 1;
    for (const GroupMember& member : view_.members) {
      const int process = std::stoi(member.address);
      if (dead(process)) continue;
      // Left out, and it may take long to hear of that; or it has come again as another life.
      const bool out = next.size() > 0 && view_.number <= kViews && rng_.Chance(0.1);
      // A learner need not have let go for the next view to begin: it may hear of it late.
      const bool late = next.size() > 0 && view_.number <= kViews && rng_.Chance(0.3);
      leaving_.insert(process);
      if (out) {
        zombies_.insert(process);
        restless_.insert(process);
      } else {
        if (!late) awaited_.insert(process);
        next.members.push_back(member);
      }
    }
    view_ = std::move(next);
    if (view_.number <= kViews && view_.size() < 5 && rng_.Chance(0.3)) AddMember(Start());
    for (auto it = zombies_.begin(); it != zombies_.end();) {
      const bool back = !leaving_.contains(*it) && !dead(*it) && rng_.Chance(0.5);
      if (back) AddMember(*it);
      it = back ? zombies_.erase(it) : std::next(it);
    }
    if (view_.size() == 0) AddMember(Start());
    view_.holders = view_.size();
    for (const int process : Members()) entering_.insert(process);
  }

  const EdgeBug bug_;
  Rng rng_;
  std::unique_ptr<TlsLinks> tls_;
  std::vector<std::shared_ptr<Wire>> wires_;
  std::vector<Greeting> greetings_;
  std::vector<std::unique_ptr<Process>> processes_;
  GroupView view_;
  std::set<int> leaving_;   // Still to let go of the view before,
  std::set<int> awaited_;   // of whom these must, before anyone enters this one.
  std::set<int> entering_;  // Still to enter this one.
  std::set<int> zombies_;   // Alive, and left out.
  std::set<int> restless_;  // Dead, or left out once: connections of theirs end without a fault.
  std::map<std::pair<int, int>, int> accidents_;  // Between two processes,
  std::map<std::pair<int, int>, std::set<uint64_t>>
      complaints_;  // and the views that heard of any.
  int64_t lives_ = 0;
  int64_t sums_ = 0;
  bool over_ = false;
  std::string failed_;
};

Process::Process(World& world)
    : world_(world),
      edges_(std::make_unique<TcpEdges>(
          attention_, kGroup, *this,
          [this](MemberId member, LossReason) {
            complained_ = true;
            const GroupMember& lost = view_.members[view_.RankOf(member)];
            world_.Complain(this, std::stoi(lost.address), view_.number);
          },
          world.bug())),
      stack_(kStackBytes) {
  getcontext(&context_);
  context_.uc_stack.ss_sp = stack_.data();
  context_.uc_stack.ss_size = stack_.size();
  context_.uc_link = nullptr;
  const auto self = reinterpret_cast<uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(Begin), 2, static_cast<unsigned>(self >> 32),
              static_cast<unsigned>(self));
}

void Process::Begin(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Process*>(static_cast<uintptr_t>(high) << 32 | low);
  self->Main();
  while (true) self->Yield();
}

void Process::Main() {
  while (!dead_ && !world_.over()) {
    if (next_) {
      const auto [view, as] = *std::exchange(next_, std::nullopt);
      complained_ = false;
      view_ = view;
      const int rank = view.RankOf(as);
      if (!edges_->Enter(view, rank, as).ok()) world_.Fail("cannot enter");
      attention_.live_view = view.number;
      Train(view, rank);
    }
    Yield();
  }
  edges_ = std::make_unique<TcpEdges>(attention_, kGroup, *this, [](MemberId, LossReason) {});
  ended_ = true;
}

void Process::Train(const GroupView& view, int rank) {
  for (int operation = 1; operation <= kOperations; ++operation) {
    const absl::Status status = Call(view, rank, operation);
    if (absl::IsAborted(status)) {
      if (Live(view)) world_.Fail("stopped in a view that lives");
      return;
    }
    if (!status.ok()) return world_.Fail(absl::StrCat(view.ToString(), ": ", status.ToString()));
    world_.CountSum();
  }
  finished_ = view.number;
}

// What it is follows from the view and the number, as in a training loop.
absl::Status Process::Call(const GroupView& view, int rank, int operation) {
  constexpr size_t kSizes[] = {1, 2, 3, 50, 100, 200, 1000, 1500, 2000, 20'000};
  const uint64_t chance = Mix(view.Mark(), operation);
  const size_t size = kSizes[chance % std::size(kSizes)];
  const int kind = static_cast<int>((chance >> 8) % 4);
  std::vector<float> values(size), speeds, expected(size), all;
  const int root = static_cast<int>((chance >> 16) % static_cast<uint64_t>(view.size()));
  for (size_t i = 0; i < size; ++i) {
    values[i] = ValueAt(chance, rank, i);
    for (int other = 0; other < view.size(); ++other) {
      if (kind != 2 || other == root) expected[i] += ValueAt(chance, other, i);
    }
  }
  for (int other = 0; other < view.size(); ++other) {
    all.push_back(ValueAt(chance, other, 0) + 1);
  }
  const absl::Span<float> span = absl::MakeSpan(values);
  const WireFormat format = chance >> 32 & 1 ? WireFormat::kBf16 : WireFormat::kFp32;
  absl::Status status;
  if (kind == 0) status = edges_->Allreduce(span, format);
  if (kind == 1) status = edges_->AllreduceAndTell(span, format, all[rank], speeds);
  if (kind == 2) {
    status = edges_->Broadcast({reinterpret_cast<char*>(values.data()), size * 4}, root);
  }
  if (kind == 3) status = edges_->Vote(operation, all[rank], speeds);
  if (!status.ok()) return status;
  if (kind != 3 && values != expected) return absl::DataLossError("a wrong sum");
  if (kind % 2 == 1 && speeds != all) return absl::DataLossError("wrong speeds");
  return absl::OkStatus();
}

absl::StatusOr<std::unique_ptr<Stream>> Process::Connect(const std::string& address, int,
                                                         const std::function<bool()>& live) {
  Yield();
  if (!live()) return absl::AbortedError("the view has ended");
  return world_.Connect(this, std::stoi(address));
}

bool Process::Refuses(const std::string& address) { return world_.dead(std::stoi(address)); }

void Process::Wait(absl::Span<pollfd> fds) {
  Yield();
  for (pollfd& fd : fds) {
    if (world_.Gone(fd.fd)) fd.revents |= POLLRDHUP;
  }
}

// Sanitizers do not follow a stack that changes; what runs here runs in tcp_edges_test with them.
#if defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer) || __has_feature(thread_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

class SimEdgesTest : public testing::TestWithParam<bool> {};

TEST_P(SimEdgesTest, NoSumMixesViewsOrOperations) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer does not follow these stacks";
  const uint64_t seeds = GetParam() ? 60 : 300;
  int64_t sums = 0;
  for (uint64_t seed = 0; seed < seeds && !HasFailure(); ++seed) {
    SCOPED_TRACE(absl::StrCat("seed ", seed));
    World world(seed, GetParam());
    EXPECT_TRUE(world.Run()) << "someone waits for ever";
    EXPECT_EQ(world.failed(), "");
    sums += world.sums();
  }
  EXPECT_GT(sums, static_cast<int64_t>(seeds) * kViews * kOperations);
}

// Whoever has not heard of a change yet takes what it cut off for data: the sum is wrong.
// (Not so soon with TLS, which takes frames of these sizes whole.)
TEST(SimEdgesBugTest, CatchesAFrameWithoutItsEndWord) {
  if (kSanitized) GTEST_SKIP() << "a sanitizer does not follow these stacks";
  std::string caught;
  uint64_t seed = 0;
  for (; seed < 1000 && caught.empty(); ++seed) {
    World world(seed, /*tls=*/false, EdgeBug::kNoEndWord);
    world.Run();
    caught = world.failed();
  }
  EXPECT_THAT(caught, testing::HasSubstr("a wrong s")) << "in " << seed << " seeds";
  std::printf("caught by seed %d: %s\n", static_cast<int>(seed - 1), caught.c_str());
}

INSTANTIATE_TEST_SUITE_P(Streams, SimEdgesTest, testing::Bool(),
                         [](const auto& info) { return info.param ? "Tls" : "Plain"; });

}  // namespace
}  // namespace rubato
