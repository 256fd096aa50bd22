// Servers that keep copies of each other's push logs, over real sockets: what was acknowledged
// outlives the folder of the server that did so. Destroying a server leaves on disk what a SIGKILL
// there would.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <future>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/fetch_log.h"
#include "rubato/adapters/posix/params_line.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/adapters/posix/replica_door.h"
#include "rubato/base/rng.h"
#include "rubato/params/partition.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr uint64_t kIds = 200;

class ReplicasTest : public testing::Test {
 protected:
  // Of the two servers the first `owners` share all partitions.
  explicit ReplicasTest(int64_t owners = 2) : owners_(owners), servers_(2), lives_(2) {
    for (size_t s = 0; s < 2; ++s) Live(s);
    client_ = StartTestClient(owners);
    client_->SetServers(Addresses());
    for (uint64_t id = 0; id < kIds; ++id) ids_.push_back(id);
  }
  ~ReplicasTest() override { client_.reset(); }

  std::string Folder(size_t s) const { return absl::StrCat(root_, "/server-", s); }
  std::vector<std::string> Addresses() const {
    return {absl::StrCat("unix:", root_, "/s0"), absl::StrCat("unix:", root_, "/s1")};
  }
  ParamsServerOptions Options(size_t s) const {
    ParamsServerOptions options = TestServerOptions(root_, static_cast<int64_t>(s), owners_);
    options.replicas = 1;
    options.incarnation = lives_[s];
    return options;
  }
  FetchLogOptions FromOther(size_t s) const {
    return {.job = "ctr",
            .directory = Folder(s),
            .server = static_cast<int64_t>(s),
            .incarnation = lives_[s],
            .others = {{static_cast<int64_t>(1 - s), Addresses()[1 - s]}}};
  }
  absl::StatusOr<FetchedLog> Fetch(size_t s) const { return FetchLog(FromOther(s)); }
  // Server `s` is dead, and its next life looks at the copy first. What it lacked.
  std::vector<std::string> TakeMissing(size_t s) {
    ++lives_[s];
    const auto lacks = CompareWithCopies(FromOther(s));
    EXPECT_TRUE(lacks.ok()) << lacks.status();
    const absl::Status taken = TakeFromCopies(FromOther(s));
    EXPECT_TRUE(taken.ok()) << taken;
    const auto still = CompareWithCopies(FromOther(s));
    EXPECT_TRUE(still.ok() && still->empty());
    return lacks.value_or(std::vector<std::string>());
  }
  // The copy of log `s`, by name.
  std::map<std::string, std::string> Copy(size_t s) const {
    std::map<std::string, std::string> files;
    const std::string of = absl::StrCat(Folder(1 - s), "/of-", s);
    const LogSizes segments = *ListSegments(of);
    for (const auto& [segment, bytes] : segments) {
      const std::string path = SegmentPath(of, segment);
      files[path] = *ReadWholeFile(path);
    }
    return files;
  }
  // A (new) life of server `s`, which gets its log back if it is gone.
  void Live(size_t s) {
    servers_[s].reset();
    ++lives_[s];
    if (lives_[s] > 1 && !*HasLog(Folder(s))) {
      const absl::StatusOr<FetchedLog> got = Fetch(s);
      ASSERT_TRUE(got.ok()) << got.status();
    }
    auto server = ParamsServer::Start(Options(s));
    ASSERT_TRUE(server.ok()) << server.status();
    servers_[s] = *std::move(server);
    servers_[s]->SetFollower(static_cast<int64_t>(1 - s), Addresses());
    servers_[s]->SetMap(1, PartitionMap::Even(owners_), {}, Addresses());
    servers_[s]->SetView(1, {WorkerId(1)});
  }
  absl::StatusOr<std::unique_ptr<ReplicaDoor>> OpenDoor(size_t s) const {
    return ReplicaDoor::Open(
        Addresses()[s], /*secret=*/"",
        {.directory = Folder(s), .job = "ctr", .server = static_cast<int64_t>(s)});
  }
  void LoseDisk(size_t s) {
    servers_[s].reset();
    std::filesystem::remove_all(Folder(s));
  }
  absl::Status Declare() {
    const Declaration model = TestSums(0, 2);
    return Await<absl::Status>(
        [&](std::function<void(absl::Status)> done) { client_->Declare(model, done); });
  }
  // Subtracts 1 from every row. The promise is kept once the push is acknowledged.
  std::future<absl::StatusOr<PushOutcome>> Push(int64_t n) {
    const PushRequest request{.key = {.begin = n, .end = n + 1},
                              .worker = WorkerId(1),
                              .view = 1,
                              .tables = {{ids_, ones_}},
                              .dense = {}};
    auto promise = std::make_shared<std::promise<absl::StatusOr<PushOutcome>>>();
    client_->Push(request, [promise](absl::StatusOr<PushOutcome> outcome) {
      promise->set_value(std::move(outcome));
    });
    return promise->get_future();
  }
  // What all rows are, if they are the same.
  float Pull() {
    std::vector<float> rows(kIds * 2, 1);
    const absl::Status status = Await<absl::Status>([&](std::function<void(absl::Status)> done) {
      client_->Pull({.tables = {{ids_, absl::MakeSpan(rows)}}, .dense = {}}, done);
    });
    EXPECT_TRUE(status.ok()) << status;
    EXPECT_EQ(rows, std::vector<float>(rows.size(), rows[0]));
    return rows[0];
  }
  bool Settled() {
    return Eventually(
        [&] { return servers_[0]->Stats().follower == 1 && servers_[1]->Stats().follower == 0; });
  }
  absl::Status Checkpoint(int64_t version) {
    for (const auto& server : servers_) {
      const absl::Status status =
          Await<absl::Status>([&](const std::function<void(absl::Status)>& done) {
            server->StartCheckpoint({.version = version}, done);
          });
      if (!status.ok()) return status;
    }
    for (const auto& server : servers_) server->DropLogBefore(version);
    return absl::OkStatus();
  }

  const TestFolder folder_;
  const std::string root_ = folder_.path();
  const int64_t owners_;
  std::vector<std::unique_ptr<ParamsServer>> servers_;
  std::vector<int64_t> lives_;
  std::unique_ptr<ParamsClient> client_;
  std::vector<uint64_t> ids_;
  const std::vector<float> ones_ = std::vector<float>(kIds * 2, 1.0f);
};

// Disks go one after the other, some right after a checkpoint, while pushes are under way. Every
// push is acknowledged once, none is lost and none is applied twice.
TEST_F(ReplicasTest, WhatWasAcknowledgedOutlivesADisk) {
  ASSERT_TRUE(Declare().ok());
  Rng rng(1);
  int64_t pushed = 0;
  for (int64_t death = 0; death < 12; ++death) {
    std::vector<std::future<absl::StatusOr<PushOutcome>>> under_way;
    for (uint64_t n = 5 + rng.Below(10); n > 0; --n) under_way.push_back(Push(pushed++));
    ASSERT_TRUE(Settled());
    ASSERT_TRUE(rng.Chance(0.7) || Checkpoint(death + 1).ok());
    for (uint64_t n = rng.Below(5); n > 0; --n) under_way.push_back(Push(pushed++));
    const size_t victim = rng.Below(2);
    if (rng.Chance(0.7)) {
      LoseDisk(victim);
    } else {
      servers_[victim].reset();
    }
    for (uint64_t n = rng.Below(5); n > 0; --n) under_way.push_back(Push(pushed++));
    Live(victim);
    for (auto& push : under_way) {
      const absl::StatusOr<PushOutcome> outcome = push.get();
      ASSERT_TRUE(outcome.ok()) << outcome.status();
    }
    ASSERT_EQ(Pull(), -static_cast<float>(pushed)) << death;
  }
}

// Everything is server 0's, so that it alone says what becomes of a push; server 1 follows it.
class OneOwnerTest : public ReplicasTest {
 protected:
  OneOwnerTest() : ReplicasTest(/*owners=*/1) {}

  template <typename T>
  static bool Waits(const std::future<T>& answer) {
    return answer.wait_for(std::chrono::seconds(0)) == std::future_status::timeout;
  }
};

// Without its follower a server takes pushes in, and says so only when the follower has them.
TEST_F(OneOwnerTest, NothingIsAcknowledgedWithoutTheFollower) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Push(0).get().ok());
  ASSERT_TRUE(Settled());
  servers_[1].reset();
  EXPECT_TRUE(Eventually([&] { return servers_[0]->Stats().follower == -1; }));
  auto waiting = Push(1);
  // What is pulled by the same connection has the push in it, and comes behind its answer.
  EXPECT_EQ(Pull(), -2);
  EXPECT_TRUE(Waits(waiting));
  EXPECT_GT(servers_[0]->Inspect().log_uncopied, 0);
  auto again = Push(1);  // A repeat is answered no sooner.
  EXPECT_EQ(Pull(), -2);
  EXPECT_TRUE(Waits(again));
  std::filesystem::remove_all(Folder(1));
  Live(1);
  EXPECT_EQ(*waiting.get(), PushOutcome::kApplied);
  EXPECT_EQ(*again.get(), PushOutcome::kDuplicate);
  EXPECT_TRUE(Settled());
  EXPECT_EQ(Pull(), -2);
}

// Nor is the model, without which no push could be replayed.
TEST_F(OneOwnerTest, NoModelIsAcknowledgedWithoutTheFollower) {
  ASSERT_TRUE(Settled());
  servers_[1].reset();
  EXPECT_TRUE(Eventually([&] { return servers_[0]->Stats().follower == -1; }));
  std::promise<absl::Status> promise;
  auto waiting = promise.get_future();
  client_->Declare(TestSums(0, 2), [&](const absl::Status& status) { promise.set_value(status); });
  EXPECT_EQ(Pull(), 0);
  EXPECT_TRUE(Waits(waiting));
  Live(1);
  EXPECT_TRUE(waiting.get().ok());
}

// What arrives is told to be there when the receiver's follower has it: from then on the giver
// forgets it.
TEST_F(OneOwnerTest, NothingHasArrivedWithoutTheFollower) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Push(0).get().ok());
  ASSERT_TRUE(Settled());
  std::vector<std::string> addresses = Addresses();
  addresses.push_back(absl::StrCat("unix:", root_, "/s2"));  // Nobody is there.
  LoseDisk(1);
  ++lives_[1];
  servers_[1] = *ParamsServer::Start(Options(1));
  servers_[1]->SetFollower(2, addresses);
  IntervalSet some;  // With a row, and in so few records that all are sent before one is answered.
  some.Add(PartitionOf(PointOf(7)), PartitionOf(PointOf(7)) + 1);
  const MoveOrder order = {.number = 1, .from = 0, .to = 1, .partitions = some};
  for (const auto& server : servers_) {
    server->SetMap(2, PartitionMap::Even(1), order, addresses);
    server->SetView(2, {WorkerId(1)});
  }
  // All of it has come, and is in one log alone.
  const auto all_of_it = [&] {
    const std::vector<History> histories = servers_[1]->Stats().histories;
    return !histories.empty() && histories[0].partitions == some;
  };
  EXPECT_TRUE(Eventually(all_of_it));
  EXPECT_EQ(servers_[0]->moved(), 0);
  servers_[1]->SetFollower(0, addresses);
  EXPECT_TRUE(Eventually([&] { return servers_[0]->moved() == 1; }));
}

// A copy is as long as the log: what a checkpoint makes needless goes from it too.
TEST_F(ReplicasTest, ACheckpointShortensTheCopy) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 5; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  ASSERT_TRUE(Checkpoint(1).ok());
  const auto copies = [&] {
    int64_t files = 0;
    for (const auto& entry : std::filesystem::directory_iterator(Folder(1) + "/of-0")) {
      files += entry.is_regular_file();
    }
    return files;
  };
  EXPECT_TRUE(Eventually([&] { return copies() == 1; }));
  LoseDisk(0);
  Live(0);
  EXPECT_EQ(Pull(), -5);
}

TEST_F(ReplicasTest, WhoMayHaveTheCopyMustAnswer) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Settled());
  servers_[1].reset();
  LoseDisk(0);
  ++lives_[0];
  const absl::StatusOr<FetchedLog> got = Fetch(0);
  EXPECT_TRUE(absl::IsUnavailable(got.status()));
  EXPECT_THAT(std::string(got.status().message()), HasSubstr("server 1, which may have a copy"));
  Live(1);
  EXPECT_FALSE(Fetch(0)->sizes.empty());
  --lives_[0];  // A life that is over gets nothing.
  EXPECT_FALSE(Fetch(0).ok());
}

// Where each record of a segment begins, and the last ends.
std::vector<size_t> Borders(const std::string& path) {
  const std::string bytes = *ReadWholeFile(path);
  std::vector<size_t> borders;
  const RecordsRead read = SkimRecords(bytes, [&](RecordKind, absl::string_view body) {
    borders.push_back(static_cast<size_t>(body.data() - bytes.data()) - kRecordHeaderBytes);
  });
  borders.push_back(read.bytes);
  return borders;
}

// From there on there are zeros, as where pages were lost: the log seems to end there.
void LoseFrom(const std::string& path, size_t at) {
  std::string bytes = *ReadWholeFile(path);
  std::fill(bytes.begin() + static_cast<std::ptrdiff_t>(at), bytes.end(), '\0');
  RUBATO_CHECK_OK(WriteFileAtomically(path, bytes));
}

// A segment before the newest checkpoint, which nobody replays, loses bytes in four ways. The
// server comes back as if nothing were wrong; its copy, the only good one, must not follow it.
TEST_F(ReplicasTest, ADamagedOldSegmentDoesNotSpoilItsCopy) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 5; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  ASSERT_TRUE(Await<absl::Status>([&](const std::function<void(absl::Status)>& done) {
                servers_[0]->StartCheckpoint({.version = 1}, done);  // The log stays.
              }).ok());
  ASSERT_TRUE(Push(5).get().ok());
  ASSERT_TRUE(Settled());
  const std::string old = SegmentPath(Folder(0), 1);
  const std::string was = *ReadWholeFile(old);
  const std::vector<size_t> borders = Borders(old);
  ASSERT_GT(borders.size(), 4U);
  std::string lost_page = was, no_tail = was;
  lost_page.replace(borders[2], kRecordHeaderBytes, kRecordHeaderBytes, '\0');
  no_tail.replace(borders[4], was.size() - borders[4], was.size() - borders[4], '\0');
  const std::vector<std::string> damages = {was.substr(0, borders[3]),
                                            was.substr(0, borders[3] + 10), lost_page, no_tail};
  for (const std::string& damaged : damages) {
    servers_[0].reset();
    ASSERT_TRUE(WriteFileAtomically(old, damaged).ok());
    const auto good = Copy(0);
    Live(0);
    ASSERT_TRUE(Eventually([&] { return servers_[0]->Stats().outrun == 1; }));
    for (const auto& [path, bytes] : good) EXPECT_EQ(*ReadWholeFile(path), bytes) << path;
    // What a server does then: its next life takes what it lacks, and the damage is named.
    servers_[0].reset();
    const std::vector<std::string> lacks = TakeMissing(0);
    ASSERT_EQ(lacks.size(), 1U);
    EXPECT_THAT(lacks[0], testing::AllOf(HasSubstr(old), HasSubstr("server 1 has")));
    EXPECT_EQ(*ReadWholeFile(old + ".damaged"), damaged);
    EXPECT_EQ(ReadWholeFile(old)->substr(0, borders.back()), was.substr(0, borders.back()));
    Live(0);
    EXPECT_TRUE(Settled());
    EXPECT_EQ(servers_[0]->Stats().outrun, -1);
    EXPECT_EQ(Pull(), -6);
  }
}

// Server 0 lost its disk and began from a copy. A copy that ends later, of somebody who was away
// then, is not of this log; but damage to where they meet is damage as anywhere.
TEST_F(ReplicasTest, WhereALifeBeganFromACopyIsKnown) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 3; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  const std::string joint = SegmentPath(Folder(0), EndOf(*ListSegments(Folder(0))).segment);
  LoseDisk(0);
  Live(0);
  ASSERT_TRUE(Push(3).get().ok());
  ASSERT_TRUE(Settled());
  servers_[0].reset();
  const std::string was = *ReadWholeFile(joint);
  std::filesystem::resize_file(joint, Borders(joint)[2]);
  EXPECT_EQ(TakeMissing(0).size(), 1U);
  EXPECT_EQ(*ReadWholeFile(joint), was);
  // The follower comes back with bytes that nobody was told of.
  servers_[1].reset();
  const std::string copy = absl::StrCat(Folder(1), "/of-0/", joint.substr(Folder(0).size()));
  ASSERT_TRUE(WriteFileAtomically(copy, was + std::string(64, 'x')).ok());
  Live(1);
  EXPECT_TRUE(TakeMissing(0).empty());
  EXPECT_TRUE(Copy(0).empty());
  Live(0);
  EXPECT_EQ(Pull(), -4);
  EXPECT_TRUE(Settled());
}

// The copy ends within a record: nobody was told of that one. No later life takes its place in the
// log for damage, and what was logged since is there.
TEST_F(ReplicasTest, ACopyMayEndWithinARecord) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 3; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  const std::string last = SegmentPath(Folder(0), EndOf(*ListSegments(Folder(0))).segment);
  const size_t torn = Borders(last)[2] + 40;
  for (const size_t s : {0, 1}) servers_[s].reset();
  std::filesystem::resize_file(absl::StrCat(Folder(1), "/of-0/", last.substr(Folder(0).size())),
                               torn);
  LoseDisk(0);
  Live(1);
  Live(0);
  EXPECT_EQ(std::filesystem::file_size(last), torn);
  const int64_t had = servers_[0]->Stats().replayed;
  EXPECT_EQ(had, 1);
  ASSERT_TRUE(Push(3).get().ok());
  ASSERT_TRUE(Settled());
  Live(0);
  EXPECT_EQ(servers_[0]->Stats().replayed, had + 1);
  EXPECT_TRUE(Settled());
  // Less of it is damage.
  servers_[0].reset();
  std::filesystem::resize_file(last, torn - 8);
  ++lives_[0];
  const absl::Status cut = ParamsServer::Start(Options(0)).status();
  EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
  EXPECT_THAT(std::string(cut.message()), HasSubstr(last + ": damaged at byte "));
  ASSERT_EQ(TakeMissing(0).size(), 1U);
  Live(0);
  EXPECT_TRUE(Settled());
}

// A bit of the file that tells where that was: it is named, and copies are only added to.
TEST_F(ReplicasTest, WhereALifeBeganIsNotBelievedIfItIsDamaged) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 3; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  EXPECT_EQ(SetAsideDamagedJoints(Folder(0)), "");  // There is none.
  LoseDisk(0);
  Live(0);
  ASSERT_TRUE(Push(3).get().ok());
  ASSERT_TRUE(Settled());
  servers_[0].reset();
  EXPECT_EQ(SetAsideDamagedJoints(Folder(0)), "");
  const std::string joints = Folder(0) + "/joints";
  const std::string sound = *ReadWholeFile(joints);
  for (const std::string& damaged : {sound.substr(0, sound.size() - 1), std::string()}) {
    ASSERT_TRUE(WriteFileAtomically(joints, damaged).ok());
    const absl::Status refused = CompareWithCopies(FromOther(0)).status();
    EXPECT_TRUE(absl::IsDataLoss(refused)) << refused;
    EXPECT_THAT(SetAsideDamagedJoints(Folder(0)), HasSubstr(joints + ": is damaged"));
    EXPECT_EQ(*ReadWholeFile(joints + ".damaged"), damaged);
    EXPECT_EQ(SetAsideDamagedJoints(Folder(0)), "");
  }
  EXPECT_TRUE(TakeMissing(0).empty());
  EXPECT_FALSE(Copy(0).empty());
  Live(0);
  EXPECT_EQ(Pull(), -4);
  EXPECT_TRUE(Settled());
}

// Both logs are gone, the copies are not: each gets its own from the other, be that back or not.
TEST_F(ReplicasTest, OneThatHasNoLogYetHandsOutWhatItKeeps) {
  ASSERT_TRUE(Declare().ok());
  for (int64_t n = 0; n < 4; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  for (size_t s = 0; s < 2; ++s) {
    servers_[s].reset();
    const LogSizes segments = *ListSegments(Folder(s));
    for (const auto& [segment, bytes] : segments) {
      std::filesystem::remove(SegmentPath(Folder(s), segment));
    }
  }
  EXPECT_TRUE(absl::IsUnavailable(Fetch(1).status()));
  {
    const auto door = OpenDoor(0);
    ASSERT_TRUE(door.ok()) << door.status();
    const absl::StatusOr<FetchedLog> got = Fetch(1);
    ASSERT_TRUE(got.ok()) << got.status();
    EXPECT_FALSE(got->sizes.empty());
    // Which is all it does for others.
    FetchLogOptions wrong = FromOther(1);
    wrong.job = "other";
    EXPECT_TRUE(absl::IsUnavailable(FetchLog(wrong).status()));
  }
  Live(1);
  Live(0);
  EXPECT_EQ(Pull(), -4);
  EXPECT_TRUE(Settled());
}

// A client that waits for a server goes on waiting while that one asks for its log. Were it told
// anything, it would give the batch up, of which the other server has its part.
TEST_F(ReplicasTest, ClientsAreHungUpOnAtTheDoor) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Push(0).get().ok());
  ASSERT_TRUE(Settled());
  LoseDisk(0);
  auto door = OpenDoor(0);
  ASSERT_TRUE(door.ok()) << door.status();
  auto waiting = Push(1);
  asio::io_context io;
  std::string heard;
  const auto hear = [&](const char* what) {
    heard = what;
    io.stop();
  };
  const FrameLinks links(/*secret=*/"");
  ParamsLine line(io, links, absl::Seconds(60),
                  {.greeted = [&](const Frame&) { hear("greeted"); },
                   .answered = [&](const Frame&) { hear("answered"); },
                   .lost = [&] { hear("lost"); },
                   .refused = [&](const absl::Status&) { hear("refused"); },
                   .files = {}});
  Hello hello;
  hello.job = "ctr";
  hello.servers = 2;
  line.Open(Addresses()[0], Greeting(hello));
  io.run();
  EXPECT_EQ(heard, "lost");
  door->reset();
  Live(0);
  const absl::StatusOr<PushOutcome> outcome = waiting.get();
  ASSERT_TRUE(outcome.ok()) << outcome.status();
  EXPECT_EQ(*outcome, PushOutcome::kApplied);
  EXPECT_EQ(Pull(), -2);
}

// A damaged log gives way to its copy, which may turn out to be damaged too: it is set aside.
TEST_F(ReplicasTest, ALogThatIsReplacedIsKept) {
  ASSERT_TRUE(Declare().ok());
  ASSERT_TRUE(Push(0).get().ok());
  servers_[0].reset();
  const std::string first = SegmentPath(Folder(0), EndOf(*ListSegments(Folder(0))).segment);
  ++lives_[0];
  Live(0);
  for (int64_t n = 1; n < 3; ++n) ASSERT_TRUE(Push(n).get().ok());
  ASSERT_TRUE(Settled());
  servers_[0].reset();
  const std::string last = SegmentPath(Folder(0), EndOf(*ListSegments(Folder(0))).segment);
  FlipByte(last, 200);
  const std::string damaged = *ReadWholeFile(last);
  ++lives_[0];
  EXPECT_TRUE(absl::IsDataLoss(ParamsServer::Start(Options(0)).status()));
  const absl::StatusOr<FetchedLog> fetched = Fetch(0);
  ASSERT_TRUE(fetched.ok()) << fetched.status();
  EXPECT_THAT(fetched->replaced,
              ElementsAre(absl::StrCat(last, ": damaged: other than its copy from byte 200 on")));
  EXPECT_EQ(*ReadWholeFile(last + ".damaged"), damaged);
  // What was sound is no damage.
  EXPECT_FALSE(std::filesystem::exists(first + ".damaged"));
  Live(0);
  EXPECT_EQ(Pull(), -3);
  EXPECT_TRUE(Settled());
}

// The log that is to be replayed is zeros from some record on, or its last segment is gone: it
// looks sound, and what was acknowledged comes back all the same.
TEST_F(ReplicasTest, ALogThatLostItsEndIsMadeWholeByItsCopy) {
  ASSERT_TRUE(Declare().ok());
  int64_t pushed = 0;
  for (int round = 0; round < 4; ++round) {
    for (int i = 0; i < 6; ++i) ASSERT_TRUE(Push(pushed++).get().ok());
    ASSERT_TRUE(Settled());
    servers_[0].reset();
    const std::string last = SegmentPath(Folder(0), EndOf(*ListSegments(Folder(0))).segment);
    if (round % 2 == 0) {
      LoseFrom(last, Borders(last)[3]);
    } else {
      std::filesystem::remove(last);
    }
    const bool started = round < 2;  // It has begun a segment of its own before it asks.
    if (started) {
      ++lives_[0];
      auto server = ParamsServer::Start(Options(0));
      ASSERT_TRUE(server.ok()) << server.status();
    }
    EXPECT_FALSE(TakeMissing(0).empty());
    Live(0);
    EXPECT_EQ(Pull(), -static_cast<float>(pushed));
    EXPECT_TRUE(Settled());
  }
}

}  // namespace
}  // namespace rubato
