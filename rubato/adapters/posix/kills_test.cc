// Servers as processes of their own, killed at random moments while pushes go on. Every push has
// numbers of its own and is noted when it is acknowledged; what the disks hold in the end is,
// bit by bit, what one shard holds that saw exactly those, one after the other.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <utility>

#include "absl/strings/numbers.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/kills_testing.h"
#include "rubato/base/mutex.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

constexpr int64_t kServers = 2;
constexpr size_t kInFlight = 3;
constexpr char kServe[] = "--serve";

// ---- a server's process ----

// Writes the checkpoints whose versions come line by line, until no more can come.
int Serve(const std::string& root, int64_t server) {
  const auto started = ParamsServer::Start(TestServerOptions(root, server, kServers));
  RUBATO_CHECK_OK(started.status());
  (*started)->SetView(1, {WorkerId(1)});
  std::string line;
  for (char c = 0; read(STDIN_FILENO, &c, 1) == 1;) {
    if (c != '\n') {
      line += c;
      continue;
    }
    const int64_t version = std::atoll(std::exchange(line, "").c_str());
    const int64_t base = (*started)->Stats().checkpointed;
    const auto written = Await<absl::Status>(
        [&](auto done) { (*started)->StartCheckpoint({.version = version, .base = base}, done); });
    RUBATO_CHECK_OK(written);
    (*started)->DropLogBefore(version);
  }
  return 0;
}

class ServerProcess {
 public:
  ServerProcess(std::string root, int64_t server) : root_(std::move(root)), server_(server) {
    Launch();
  }
  ~ServerProcess() { Kill(); }
  ServerProcess(const ServerProcess&) = delete;
  ServerProcess& operator=(const ServerProcess&) = delete;

  void Launch() {
    int ends[2];
    RUBATO_CHECK(pipe2(ends, O_CLOEXEC) == 0);
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[0], STDIN_FILENO);
    std::string words[] = {"kills_test", kServe, root_, absl::StrCat(server_)};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    RUBATO_CHECK(posix_spawn(&pid_, "/proc/self/exe", &actions, nullptr, argv, environ) == 0);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[0]);
    orders_ = ends[1];
  }
  void Kill() {
    if (pid_ == 0) return;
    kill(pid_, SIGKILL);
    waitpid(std::exchange(pid_, 0), nullptr, 0);
    close(orders_);
  }
  // It begins at once, and nobody waits for it.
  void Checkpoint(int64_t version) {
    const std::string line = absl::StrCat(version, "\n");
    RUBATO_CHECK(write(orders_, line.data(), line.size()) == static_cast<ssize_t>(line.size()));
  }

 private:
  const std::string root_;
  const int64_t server_;
  pid_t pid_ = 0;
  int orders_ = -1;
};

// ---- the worker ----

class KillsTest : public testing::Test {
 protected:
  KillsTest() : client_(StartTestClient(kServers)) {
    std::vector<std::string> addresses;
    for (int64_t s = 0; s < kServers; ++s) {
      servers_.push_back(std::make_unique<ServerProcess>(folder_.path(), s));
      addresses.push_back(TestServerOptions(folder_.path(), s, kServers).address);
    }
    client_->SetServers(addresses);
    RUBATO_CHECK_OK(
        Await<absl::Status>([&](auto done) { client_->Declare(KillsModel(), std::move(done)); }));
  }

  // Sends pushes, a few at a time, until `acknowledged` more of them are.
  void PushOn(size_t acknowledged) {
    MutexLock lock(mu_);
    const size_t until = acknowledged_.size() + acknowledged;
    while (acknowledged_.size() < until) {
      while (sent_ - acknowledged_.size() < kInFlight) Send(static_cast<int64_t>(sent_++));
      changed_.Wait(mu_);
    }
  }
  // All that were sent.
  std::vector<int64_t> Acknowledged() {
    MutexLock lock(mu_);
    while (acknowledged_.size() < sent_) changed_.Wait(mu_);
    return acknowledged_;
  }
  void Send(int64_t n) {
    const Gradients gradients(n);
    client_->Push(gradients.request, [this, n](absl::StatusOr<PushOutcome> outcome) {
      RUBATO_CHECK_OK(outcome.status());
      RUBATO_CHECK(*outcome == PushOutcome::kApplied || *outcome == PushOutcome::kDuplicate);
      MutexLock lock(mu_);
      acknowledged_.push_back(n);
      changed_.NotifyAll();
    });
  }

  void Checkpoint() {
    ++version_;
    for (const auto& server : servers_) server->Checkpoint(version_);
  }
  void KillOne(Rng& rng) {
    ServerProcess& victim = *servers_[rng.Below(servers_.size())];
    victim.Kill();
    victim.Launch();
  }
  static int64_t Kills() {
    const char* asked = std::getenv("RUBATO_KILLS");
    int64_t kills = 20;
    RUBATO_CHECK(asked == nullptr || absl::SimpleAtoi(asked, &kills));
    return kills;
  }
  // Whether a server writes over an older segment: its file is longer than what is in it.
  bool IsRecycling() {
    for (int64_t s = 0; s < kServers; ++s) {
      const std::string folder = TestServerOptions(folder_.path(), s, kServers).directory;
      const auto segments = ListSegments(folder);
      if (!segments.ok()) continue;
      for (const auto& [segment, size] : *segments) {
        const auto file = MappedFile::Open(SegmentPath(folder, segment));
        if (!file.ok()) continue;  // It has just become a spare.
        const auto skimmed = SkimRecords(file->bytes(), [](RecordKind, absl::string_view) {});
        if (skimmed.used(file->bytes()) + 8192 < size) return true;
      }
    }
    return false;
  }

  // After a few more, and the death of all: nobody says goodbye.
  void ExpectOnDisk() {
    PushOn(5);
    const std::vector<int64_t> acknowledged = Acknowledged();
    for (const auto& server : servers_) server->Kill();
    ExpectSameState(StateOnDisk(folder_.path(), kServers), StateAfter(acknowledged));
  }

  const TestFolder folder_;
  int64_t version_ = 0;
  std::vector<std::unique_ptr<ServerProcess>> servers_;
  Mutex mu_;
  CondVar changed_;
  size_t sent_ ABSL_GUARDED_BY(mu_) = 0;
  std::vector<int64_t> acknowledged_ ABSL_GUARDED_BY(mu_);  // In the order in which that was heard.
  std::unique_ptr<ParamsClient> client_;                    // Its thread ends first.
};

// $RUBATO_KILLS of them, or twenty.
TEST_F(KillsTest, TheDisksHoldExactlyWhatWasAcknowledged) {
  Rng rng(21);
  for (int64_t killed = 0; killed < Kills(); ++killed) {
    // Sometimes right after its last death, as it reads its log.
    if (!rng.Chance(0.2)) PushOn(1 + rng.Below(12));
    if (rng.Chance(0.4)) Checkpoint();
    if (rng.Chance(0.5)) PushOn(1);
    KillOne(rng);
  }
  ExpectOnDisk();
}

// Checkpoint after checkpoint, so that every segment lies over an older one, longer or shorter, and
// deaths while segments are freed and begun.
TEST_F(KillsTest, SegmentsAreWrittenOverAndOver) {
  Rng rng(22);
  PushOn(20);  // The first segments are long.
  for (int64_t killed = 0; killed < Kills(); ++killed) {
    for (uint64_t n = 1 + rng.Below(4); n > 0; --n) {
      PushOn(1 + rng.Below(rng.Chance(0.2) ? 15 : 4));
      Checkpoint();
    }
    if (rng.Chance(0.7)) PushOn(1 + rng.Below(3));
    KillOne(rng);
  }
  while (!IsRecycling()) {  // As it has been for long, unless the machine is very slow.
    PushOn(1);
    Checkpoint();
  }
  ExpectOnDisk();
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  if (argc == 4 && std::string(argv[1]) == rubato::kServe) {
    return rubato::Serve(argv[2], std::atoll(argv[3]));
  }
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
