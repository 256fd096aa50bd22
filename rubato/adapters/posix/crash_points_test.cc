// A server dies at every point at which what is outside of it changes: before each write, rename,
// removal, sync and answer, half-way through each write, and after it. Its next life dies too,
// most often while it comes back. Whatever was acknowledged is there in the end, once, bit by bit.
//
// The calls of the C library are this program's own: they count, die or do as they are told.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/kills_testing.h"
#include "rubato/base/mutex.h"

namespace {

std::atomic<int64_t> passed = 0;
int64_t deadly = 0;  // The point at which this process dies; 0: at none.

bool IsDeadly() { return deadly > 0 && ++passed == deadly; }
void Die() {
  kill(getpid(), SIGKILL);
  while (true) pause();
}
void Pass() {
  if (IsDeadly()) Die();
}

// Around a call that is done at once or not at all.
template <typename Call>
auto Around(Call call) {
  Pass();
  const auto result = call();
  const int error = errno;
  Pass();
  errno = error;
  return result;
}

// Who dies while it writes has written up to the end of some page.
ssize_t WriteAround(int fd, std::vector<iovec> parts, off_t at) {
  const auto write = [&] {
    return syscall(SYS_pwritev, fd, parts.data(), parts.size(), at, off_t{0});
  };
  Pass();
  if (IsDeadly()) {
    constexpr off_t kPage = 4096;
    off_t bytes = 0;
    for (const iovec& part : parts) bytes += static_cast<off_t>(part.iov_len);
    off_t left = (at + bytes / 2) / kPage * kPage - at;
    for (iovec& part : parts) {
      part.iov_len = std::min(part.iov_len, static_cast<size_t>(std::max<off_t>(left, 0)));
      left -= static_cast<off_t>(part.iov_len);
    }
    write();
    Die();
  }
  const ssize_t written = write();
  const int error = errno;
  Pass();
  errno = error;
  return written;
}

bool IsFile(int fd) {
  struct stat stat {};
  return fstat(fd, &stat) == 0 && S_ISREG(stat.st_mode);
}

}  // namespace

extern "C" {
ssize_t pwritev(int fd, const iovec* parts, int count, off_t at) {
  return WriteAround(fd, {parts, parts + count}, at);
}
ssize_t pwrite(int fd, const void* bytes, size_t size, off_t at) {
  return WriteAround(fd, {{const_cast<void*>(bytes), size}}, at);
}
ssize_t write(int fd, const void* bytes, size_t size) {
  const auto call = [&] { return syscall(SYS_write, fd, bytes, size); };
  return IsFile(fd) ? Around(call) : call();
}
ssize_t send(int fd, const void* bytes, size_t size, int flags) {
  return Around([&] { return syscall(SYS_sendto, fd, bytes, size, flags, nullptr, 0); });
}
ssize_t sendmsg(int fd, const msghdr* message, int flags) {
  return Around([&] { return syscall(SYS_sendmsg, fd, message, flags); });
}
int rename(const char* from, const char* to) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_rename, from, to); }));
}
int link(const char* from, const char* to) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_link, from, to); }));
}
int remove(const char* path) noexcept {
  return static_cast<int>(Around([&] {
    const auto removed = syscall(SYS_unlink, path);
    return removed != 0 && errno == EISDIR ? syscall(SYS_rmdir, path) : removed;
  }));
}
int unlink(const char* path) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_unlink, path); }));
}
int unlinkat(int fd, const char* path, int flags) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_unlinkat, fd, path, flags); }));
}
int truncate(const char* path, off_t size) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_truncate, path, size); }));
}
int ftruncate(int fd, off_t size) noexcept {
  return static_cast<int>(Around([&] { return syscall(SYS_ftruncate, fd, size); }));
}
int fsync(int fd) {
  return static_cast<int>(Around([&] { return syscall(SYS_fsync, fd); }));
}
int fdatasync(int fd) {
  return static_cast<int>(Around([&] { return syscall(SYS_fdatasync, fd); }));
}
}

namespace rubato {
namespace {

constexpr int64_t kServers = 2;
constexpr char kServe[] = "--serve";

// What a process is told when it starts.
struct Life {
  std::string root;
  int64_t server = 0;
  int64_t number = 1;
  int64_t point = 0;  // At which it dies.
  int64_t stage = 0;
  int64_t replicas = 0;
};

std::vector<std::string> Addresses(const std::string& root) {
  std::vector<std::string> addresses;
  for (int64_t s = 0; s < kServers; ++s) {
    addresses.push_back(TestServerOptions(root, s, kServers).address);
  }
  return addresses;
}

// One after the other: the first gives some, then all it has, and gets some back.
const std::vector<MoveOrder>& Moves() {
  static const auto* const kMoves = [] {
    auto* moves = new std::vector<MoveOrder>(3);
    (*moves)[0] = {.number = 1, .from = 0, .to = 1};
    (*moves)[0].partitions.Add(0, 300);
    (*moves)[1] = {.number = 2, .from = 0, .to = 1};
    (*moves)[1].partitions.Add(300, 512);
    (*moves)[2] = {.number = 3, .from = 1, .to = 0};
    (*moves)[2].partitions.Add(100, 200);
    return moves;
  }();
  return *kMoves;
}

// What the master says at stage 2n is that n moves are over, and at 2n + 1 that one more is wanted.
void Tell(ParamsServer& server, const Life& life) {
  PartitionMap map = PartitionMap::Even(kServers);
  const auto over = static_cast<size_t>(life.stage / 2);
  for (size_t m = 0; m < over; ++m) map.Move(Moves()[m].partitions, Moves()[m].to);
  const MoveOrder move = life.stage % 2 == 1 ? Moves()[over] : MoveOrder{};
  if (life.replicas > 0) server.SetFollower(1 - life.server, Addresses(life.root));
  server.SetMap(life.stage + 1, map, move, Addresses(life.root));
  server.SetView(life.stage + 1, {WorkerId(1)});
}

// ---- a server's process ----

// As roles/server_recovery.h does it.
std::unique_ptr<ParamsServer> Start(const Life& life) {
  ParamsServerOptions options = TestServerOptions(life.root, life.server, kServers);
  options.replicas = life.replicas;
  options.incarnation = life.number;
  const int64_t other = 1 - life.server;
  const auto fetch = [&] {
    while (!FetchLog({.job = options.job,
                      .directory = options.directory,
                      .server = life.server,
                      .incarnation = life.number,
                      .others = {{other, Addresses(life.root)[static_cast<size_t>(other)]}}})
                .ok()) {
      absl::SleepFor(absl::Milliseconds(1));
    }
  };
  const bool replicas = life.replicas > 0 && life.number > 1;
  if (replicas && !*HasLog(options.directory)) fetch();
  auto server = ParamsServer::Start(options);
  if (replicas && absl::IsDataLoss(server.status())) {  // Half of it was there.
    fetch();
    server = ParamsServer::Start(options);
  }
  RUBATO_CHECK_OK(server.status());
  return *std::move(server);
}

bool Obey(ParamsServer& server, Life& life, char order, int64_t number) {
  if (order == 's') {
    life.stage = number;
    Tell(server, life);
    return true;
  }
  if (order == 'r') return server.moved() == number;
  const int64_t base = server.Stats().checkpointed;
  const auto written = Await<absl::Status>(
      [&](auto done) { server.StartCheckpoint({.version = number, .base = base}, done); });
  if (!written.ok()) return false;  // Rows that moved away are still being tidied up.
  server.DropLogBefore(number);
  return true;
}

// Does what it is told line by line and answers each with a letter, until no more can come.
int Serve(Life life) {
  const std::unique_ptr<ParamsServer> server = Start(life);
  Tell(*server, life);
  std::string line;
  for (char c = 0; read(STDIN_FILENO, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const char answer = Obey(*server, life, line[0], std::atoll(line.c_str() + 1)) ? 'y' : 'n';
    line.clear();
    if (write(STDOUT_FILENO, &answer, 1) != 1) break;
  }
  return 0;
}

// A server that is started again whenever it dies, until this is destroyed.
class Server {
 public:
  // It dies at these points of its first lives.
  Server(Life first, std::vector<int64_t> points) : life_(std::move(first)), points_(points) {
    Launch();
    thread_ = std::thread([this] { Watch(); });
  }
  ~Server() { End(); }
  Server(const Server&) = delete;
  Server& operator=(const Server&) = delete;

  // Whether it says yes. Asked again if it dies meanwhile.
  bool Ask(char order, int64_t number) {
    const std::string line = absl::StrCat(std::string(1, order), number, "\n");
    while (true) {
      const MutexLock lock(mu_);
      if (order == 's') life_.stage = number;
      char answer = 0;
      if (::write(to_, line.data(), line.size()) == static_cast<ssize_t>(line.size()) &&
          ::read(from_, &answer, 1) == 1) {
        return answer == 'y';
      }
      const int64_t dead = life_.number;
      while (life_.number == dead) changed_.Wait(mu_);
    }
  }
  // Killed, and not started again, unless with Launch.
  void End() {
    if (!thread_.joinable()) return;
    {
      const MutexLock lock(mu_);
      over_ = true;
      kill(pid_, SIGKILL);
    }
    thread_.join();
  }
  // Once it has died at a point, its folder goes too.
  void LoseDiskWithFirstLife() { loses_disk_ = true; }
  int64_t lives() {
    const MutexLock lock(mu_);
    return life_.number;
  }

 private:
  void Launch() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    int orders[2], answers[2];
    RUBATO_CHECK(pipe2(orders, O_CLOEXEC) == 0 && pipe2(answers, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, orders[0], STDIN_FILENO);
    posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
    const auto at = static_cast<size_t>(life_.number - 1);
    life_.point = at < points_.size() ? points_[at] : 0;
    std::vector<std::string> words = {"crash_points_test", kServe, life_.root};
    for (const int64_t number :
         {life_.server, life_.number, life_.point, life_.stage, life_.replicas}) {
      words.push_back(absl::StrCat(number));
    }
    std::vector<char*> argv;
    for (std::string& word : words) argv.push_back(word.data());
    argv.push_back(nullptr);
    pid_t pid = 0;
    RUBATO_CHECK(posix_spawn(&pid, "/proc/self/exe", &actions, nullptr, argv.data(), environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(orders[0]);
    close(answers[1]);
    pid_ = pid;
    to_ = orders[1];
    from_ = answers[0];
  }
  void Watch() {
    while (true) {
      int status = 0;
      RUBATO_CHECK(waitpid(pid_, &status, 0) == pid_);
      RUBATO_CHECK(WIFSIGNALED(status) && WTERMSIG(status) == SIGKILL);
      const MutexLock lock(mu_);
      close(to_);
      close(from_);
      if (over_) return;
      if (loses_disk_.exchange(false)) {
        std::filesystem::remove_all(
            TestServerOptions(life_.root, life_.server, kServers).directory);
      }
      ++life_.number;
      Launch();
      changed_.NotifyAll();
    }
  }

  Mutex mu_;
  CondVar changed_;
  Life life_ ABSL_GUARDED_BY(mu_);
  const std::vector<int64_t> points_;
  std::atomic<bool> loses_disk_ = false;
  std::atomic<pid_t> pid_ = 0;
  int to_ = -1, from_ = -1;
  bool over_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// ---- the story that each point is tried in ----

struct Plot {
  int64_t victim = 0;
  int64_t point = 0;
  int64_t replicas = 0;
  bool loses_disk = false;
  bool moves = false;
};

class CrashPointsTest : public testing::Test {
 protected:
  // True if the victim met that point.
  static bool Play(const Plot& plot) {
    CrashPointsTest::Story story(plot);
    story.Tell();
    return story.Ends();
  }

  // Each `stride`th point, another first one every day; all from N on if $RUBATO_CRASH_POINTS is N,
  // which are told.
  static void PlayAll(Plot plot, int64_t stride) {
    const char* from = std::getenv("RUBATO_CRASH_POINTS");
    plot.point = 1 + (absl::ToUnixSeconds(absl::Now()) / 86400) % stride;
    if (from != nullptr) plot.point = std::atoll(from), stride = 1;
    int64_t played = 0;
    while (!HasFailure()) {
      SCOPED_TRACE(absl::StrCat("point ", plot.point));
      if (from != nullptr) std::fprintf(stderr, "point %d\n", static_cast<int>(plot.point));
      if (!Play(plot)) break;
      plot.point += stride;
      ++played;
    }
    EXPECT_GT(played, from != nullptr ? 0 : 10);
    RecordProperty("points", static_cast<int>(played));
  }

 private:
  class Story {
   public:
    explicit Story(const Plot& plot) : plot_(plot), client_(StartTestClient(kServers)) {
      for (int64_t s = 0; s < kServers; ++s) {
        // The second life is killed early, too: most points of a recovery are among the first.
        const bool dies = s == plot.victim;
        servers_.push_back(std::make_unique<Server>(
            Life{.root = folder_.path(), .server = s, .replicas = plot.replicas},
            dies ? std::vector<int64_t>{plot.point, 1 + plot.point % 19} : std::vector<int64_t>()));
      }
      if (plot.loses_disk) victim().LoseDiskWithFirstLife();
      client_->SetServers(Addresses(folder_.path()));
    }
    void Tell() {
      RUBATO_CHECK_OK(
          Await<absl::Status>([&](auto done) { client_->Declare(KillsModel(), std::move(done)); }));
      Push(3);
      for (int n = 0; n < 3; ++n) {  // The later ones free segments that are written over.
        Checkpoint();
        Push(2);
      }
      for (int64_t m = 0; plot_.moves && m < std::ssize(Moves()); ++m) Move(m);
      if (plot_.moves) Checkpoint();
      Push(1);
    }
    bool Ends() {
      const bool met = victim().lives() > 1;
      for (const auto& server : servers_) server->End();
      client_->Stop();
      std::vector<int64_t> pushes;
      for (int64_t n = 0; n < sent_; ++n) pushes.push_back(n);
      ExpectSameState(StateOnDisk(folder_.path(), kServers), StateAfter(pushes));
      return met;
    }

   private:
    Server& victim() { return *servers_[static_cast<size_t>(plot_.victim)]; }
    std::future<void> Send() {
      const Gradients gradients(sent_++);
      auto done = std::make_shared<std::promise<void>>();
      client_->Push(gradients.request, [done](const absl::StatusOr<PushOutcome>& outcome) {
        RUBATO_CHECK_OK(outcome.status());
        RUBATO_CHECK(*outcome == PushOutcome::kApplied || *outcome == PushOutcome::kDuplicate);
        done->set_value();
      });
      return done->get_future();
    }
    void Push(int count) {
      for (; count > 0; --count) Send().get();
    }
    void Checkpoint() {
      ++version_;
      for (const auto& server : servers_) {
        while (!server->Ask('c', version_)) absl::SleepFor(absl::Milliseconds(1));
      }
    }
    void Move(int64_t m) {
      for (const auto& server : servers_) server->Ask('s', 2 * m + 1);
      const auto pushed = Send();  // It may have to wait for the end of the move.
      const MoveOrder& move = Moves()[static_cast<size_t>(m)];
      while (!servers_[static_cast<size_t>(move.from)]->Ask('r', move.number)) {
        absl::SleepFor(absl::Milliseconds(1));
      }
      for (const auto& server : servers_) server->Ask('s', 2 * m + 2);
      pushed.wait();
      Push(1);
    }

    const Plot plot_;
    const TestFolder folder_;
    std::vector<std::unique_ptr<Server>> servers_;
    std::unique_ptr<ParamsClient> client_;
    int64_t sent_ = 0;
    int64_t version_ = 0;
  };
};

TEST_F(CrashPointsTest, ALogAndCheckpoints) { PlayAll({.victim = 0}, 3); }

TEST_F(CrashPointsTest, WhoGivesPartitions) { PlayAll({.victim = 0, .moves = true}, 29); }
TEST_F(CrashPointsTest, WhoGetsPartitions) { PlayAll({.victim = 1, .moves = true}, 53); }

TEST_F(CrashPointsTest, ALeader) { PlayAll({.victim = 0, .replicas = 1}, 7); }
TEST_F(CrashPointsTest, ALeaderAndItsDisk) {
  PlayAll({.victim = 0, .replicas = 1, .loses_disk = true}, 7);
}
TEST_F(CrashPointsTest, LeadersWhosePartitionsMove) {
  PlayAll({.victim = 1, .replicas = 1, .loses_disk = true, .moves = true}, 97);
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  if (argc == 8 && std::string(argv[1]) == rubato::kServe) {
    deadly = std::atoll(argv[5]);
    return rubato::Serve({.root = argv[2],
                          .server = std::atoll(argv[3]),
                          .number = std::atoll(argv[4]),
                          .point = deadly,
                          .stage = std::atoll(argv[6]),
                          .replicas = std::atoll(argv[7])});
  }
  signal(SIGPIPE, SIG_IGN);
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
