#include "rubato/master/rebalance.h"

#include <gtest/gtest.h>

#include <vector>

#include "rubato/master/fake_job.h"

namespace rubato {
namespace {

struct Case {
  int64_t before, after;
  int64_t moved_max;  // No more partitions than that change hands.
};

// However many there were, so many share evenly in the end, by moves of what the giver has.
TEST(RebalanceTest, EveryPlanEndsEven) {
  const std::vector<Case> cases = {
      {1, 2, 512},     {2, 3, 342},     {3, 2, 342},     {2, 2, 0},   {1, 1, 0},
      {4, 1, 768},     {1, 7, 878},     {7, 5, 300},     {5, 7, 300}, {1, 1024, 1023},
      {1024, 1, 1023}, {1024, 3, 1024}, {3, 1024, 1023},
  };
  for (const Case& c : cases) {
    PartitionMap map = PartitionMap::Even(c.before);
    int64_t moved = 0, moves = 0;
    while (const auto move = NextMove(map, c.after)) {
      ASSERT_LT(++moves, 5000);
      ASSERT_NE(move->from, move->to);
      ASSERT_LT(move->to, c.after);
      ASSERT_GE(move->partitions.size(), 1);
      ASSERT_LE(move->partitions.size(), kMovePartitionsMax);
      ASSERT_EQ(move->partitions.Intersect(map.PartitionsOf(move->from)), move->partitions);
      moved += move->partitions.size();
      map.Move(move->partitions, move->to);
      ASSERT_EQ(map.VersionOf(move->from), map.number());
      ASSERT_EQ(map.VersionOf(move->to), map.number());
    }
    EXPECT_LE(moved, c.moved_max) << c.before << " to " << c.after;
    for (int64_t s = 0; s < map.servers(); ++s) {
      const int64_t count = map.PartitionsOf(s).size();
      if (s >= c.after) {
        EXPECT_EQ(count, 0);
        continue;
      }
      EXPECT_GE(count, kPartitions / c.after);
      EXPECT_LE(count, kPartitions / c.after + 1);
    }
  }
}

TEST(RebalanceTest, AMapSurvivesItsBytes) {
  PartitionMap map = PartitionMap::Even(3);
  while (const auto move = NextMove(map, 5)) map.Move(move->partitions, move->to);
  const auto read = PartitionMap::Decode(map.Encode());
  ASSERT_TRUE(read.ok());
  EXPECT_TRUE(*read == map);
  const std::string bytes = map.Encode();
  for (size_t n = 0; n < bytes.size(); ++n) {
    EXPECT_FALSE(PartitionMap::Decode(bytes.substr(0, n)).ok());
  }
}

// ---- the master's part ----

// Servers beat until none is asked to move anything: the giver says that all is there at once. The
// master dies `restarts` times on the way.
void MoveAll(FakeJob& job, int64_t servers, int restarts) {
  for (int turn = 0; turn < 1000; ++turn) {
    const MoveOrder move = job.master->view().move;
    for (int64_t id = 0; id < servers; ++id) {
      const HeartbeatReply reply = job.Done(
          job.master->Heartbeat(ServerHeartbeat{.server = ServerId(id),
                                                .incarnation = 1,
                                                .view = job.master->view().number,
                                                .applied = job.disks[static_cast<size_t>(id)],
                                                .checkpointed = job.checkpointed,
                                                .moved = id == move.from ? move.number : 0},
                                job.now));
      EXPECT_TRUE(reply.known);
    }
    if (turn % 3 == 1 && restarts-- > 0) {
      const PartitionMap map = job.master->view().map;
      const MoveOrder under_way = job.master->view().move;
      job.Open();
      EXPECT_TRUE(job.master->view().map == map);
      EXPECT_TRUE(job.master->view().move == under_way);
    }
    job.Pass(absl::Milliseconds(50));
    if (job.master->view().move.number == 0 && move.number == 0) return;
  }
  ADD_FAILURE() << "moves without end";
}

TEST(ScaleServersTest, TwoBecomeThreeBecomeTwo) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  const Task first = job.Lease(0).task;
  job.Commit(0, first, first.begin + 5);
  job.TakeLaunched(Role::kServer);

  EXPECT_FALSE(job.Done(job.master->Scale({.servers = 1025}, job.now)).accepted);
  const ScaleReply reply = job.Done(job.master->Scale({.servers = 3}, job.now));
  EXPECT_TRUE(reply.accepted);
  EXPECT_EQ(reply.servers_target, 3);
  EXPECT_EQ(reply.workers_target, 2);
  ASSERT_EQ(job.TakeLaunched(Role::kServer).size(), 1u);
  EXPECT_EQ(job.causes["server_launched"], "asked by rubato scale");
  EXPECT_EQ(job.master->view().move.number, 0);  // Nobody to move to yet.
  job.JoinServer(2);
  EXPECT_EQ(job.master->view().move.to, 2);
  MoveAll(job, 3, /*restarts=*/3);
  for (int64_t s = 0; s < 3; ++s) {
    EXPECT_NEAR(job.master->view().map.PartitionsOf(s).size(), 341.5, 0.6);
  }
  ServersScaled scaled = job.master->snapshot().servers_scaled;
  EXPECT_EQ(scaled.to, 3);
  EXPECT_GT(scaled.seconds, 0);
  EXPECT_EQ(scaled.partitions, 341);

  job.Done(job.master->Scale({.servers = 2}, job.now));
  MoveAll(job, 3, /*restarts=*/3);
  EXPECT_FALSE(job.master->view().map.Owns(2));
  EXPECT_EQ(job.signalled.back().role, Role::kServer);
  EXPECT_EQ(job.signalled.back().id, 2);
  EXPECT_EQ(job.BeatServer(2).directive, Directive::kLeave);
  job.TakeLaunched(Role::kServer);  // Masters that came back repeat their launches.
  EXPECT_EQ(job.master->snapshot().processes[2].state, "leaving");
  job.Exit(Role::kServer, 2, 1, 0, 0);
  EXPECT_TRUE(job.TakeLaunched(Role::kServer).empty());
  EXPECT_EQ(job.master->snapshot().processes[2].state, "exited");  // Nobody lost it.
  job.Open();
  EXPECT_EQ(job.master->snapshot().processes[2].state, "exited");
  EXPECT_EQ(job.master->snapshot().servers_lost, 0);

  // The last checkpoint is that of two, and the third need not have applied what came later.
  job.disks[2].clear();
  job.Commit(0, first, first.end);
  job.disks[2].clear();
  job.WorkOff(0);
  job.disks[2].clear();
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->state(), JobState::kDone) << job.master->snapshot().error;
  EXPECT_NE(job.manifests.back().contents.find("\"servers\": 2"), std::string::npos);
}

// What a change cost is told however short it was: over its slowest second, or over all of it.
TEST(ScaleServersTest, ADipUnderASecondIsSeen) {
  for (const bool dip : {true, false}) {
    FakeJob job;
    job.JoinServers();
    job.JoinWorker(0);
    const Task task = job.Lease(0).task;
    job.Commit(0, task, task.begin + 5);
    job.Pass(absl::Milliseconds(500));
    job.Commit(0, task, task.end);
    job.Done(job.master->Scale({.servers = 3}, job.now));
    const absl::Time began = job.now;
    job.JoinServer(2);
    job.Pass(absl::Milliseconds(50));
    if (!dip) {
      const Task next = job.Lease(0).task;
      job.Commit(0, next, next.end);
    }
    MoveAll(job, 3, /*restarts=*/0);
    ASSERT_LT(job.now - began, absl::Seconds(1));
    for (int restart = 0; restart < 2; ++restart, job.Open()) {
      const ServersScaled scaled = job.master->snapshot().servers_scaled;
      EXPECT_GT(scaled.rate_before, 0);
      EXPECT_NEAR(scaled.rate_lowest, dip ? 0 : 10 / scaled.seconds, 1e-3);
    }
  }
}

// With replicas the next server keeps the copy of a log; one that is to go stays until all of those
// that remain have their copies elsewhere.
TEST(ScaleServersTest, WhoKeepsACopyLeavesLast) {
  MasterOptions options = SmallJob();
  options.job.params.replicas = 1;
  FakeJob job(options);
  EXPECT_EQ(job.JoinServer(0).follower, 1);
  EXPECT_EQ(job.JoinServer(1).follower, 0);
  EXPECT_EQ(job.JoinWorker(0).follower, -1);
  const Task first = job.Lease(0).task;
  job.Commit(0, first, first.begin + 5);
  const ScaleReply one = job.Done(job.master->Scale({.servers = 1}, job.now));
  EXPECT_FALSE(one.accepted);
  EXPECT_NE(one.reason.find("params.replicas: 1"), std::string::npos) << one.reason;
  job.Done(job.master->Scale({.servers = 3}, job.now));
  EXPECT_EQ(job.JoinServer(2).follower, 0);
  EXPECT_EQ(job.BeatServer(1).follower, 2);
  MoveAll(job, 3, /*restarts=*/0);
  job.Done(job.master->Scale({.servers = 2}, job.now));
  EXPECT_EQ(job.BeatServer(1).follower, 0);
  MoveAll(job, 3, /*restarts=*/0);
  EXPECT_FALSE(job.master->view().map.Owns(2));
  const auto settled = [&](int64_t server, int64_t follower) {
    job.Done(job.master->Heartbeat(ServerHeartbeat{.server = ServerId(server),
                                                   .incarnation = 1,
                                                   .view = job.master->view().number,
                                                   .applied = job.disks[0],
                                                   .follower = follower},
                                   job.now));
  };
  settled(0, 1), settled(1, 2);
  EXPECT_EQ(job.BeatServer(2).directive, Directive::kContinue);
  settled(1, 0);
  EXPECT_EQ(job.BeatServer(2).directive, Directive::kLeave);
}

TEST(ScaleServersTest, CheckpointsAndMovesTakeTurns) {
  MasterOptions options = SmallJob();
  options.job.checkpoint.every_steps = 1;
  FakeJob job(options);
  job.JoinServers();
  job.JoinWorker(0);
  const Task first = job.Lease(0).task;
  job.Commit(0, first, first.begin + 5);
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 1);
  job.Done(job.master->Scale({.servers = 1}, job.now));
  EXPECT_EQ(job.master->view().move.number, 0);  // The checkpoint goes first.
  job.WriteCheckpoint();
  EXPECT_EQ(job.master->view().move.from, 1);
  job.Commit(0, first, first.end);
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);  // Due, and waits for the move.
  const int64_t move = job.master->view().move.number;
  job.Done(job.master->Heartbeat(
      ServerHeartbeat{.server = ServerId(1), .incarnation = 1, .checkpointed = 1, .moved = move},
      job.now));
  EXPECT_EQ(job.master->view().map.PartitionsOf(1).size(), 512 - kMovePartitionsMax);
  EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 2);
  EXPECT_EQ(job.master->view().move.number, 0);
}

// Once a move, however often it is tried; what is told of an earlier view may be of another move.
TEST(ScaleServersTest, AReceiverWithoutRoomIsNamedOnce) {
  FakeJob job;
  job.JoinServers();
  job.JoinWorker(0);
  const Task first = job.Lease(0).task;
  job.Commit(0, first, first.begin + 5);
  job.Done(job.master->Scale({.servers = 1}, job.now));
  const MoveOrder move = job.master->view().move;
  ASSERT_EQ(move.from, 1);
  const auto beat = [&](int64_t server, int64_t view, const std::string& refused) {
    job.Done(job.master->Heartbeat(
        ServerHeartbeat{
            .server = ServerId(server), .incarnation = 1, .view = view, .move_refused = refused},
        job.now));
    return std::count(job.events.begin(), job.events.end(), "move_refused");
  };
  const int64_t now = job.master->view().number;
  EXPECT_EQ(beat(1, now - 1, "table deep: no room"), 0);
  EXPECT_EQ(beat(0, now, "table deep: no room"), 0);
  EXPECT_EQ(beat(1, now, ""), 0);
  EXPECT_EQ(beat(1, now, "table deep: no room"), 1);
  EXPECT_EQ(beat(1, now, "table deep: no room"), 1);
  EXPECT_EQ(job.causes["move_refused"], "table deep: no room");
  EXPECT_EQ(std::get<int64_t>(job.fields["move_refused"]["to"]), 0);
  EXPECT_EQ(job.master->view().move.number, move.number);
}

// What moved is in the receiver's log alone, so a checkpoint follows the last move: one, also if
// the master dies meanwhile. A job without any has nothing to go back to, whatever is lost.
TEST(ScaleServersTest, ACheckpointFollowsTheLastMove) {
  for (const bool has_one : {true, false}) {
    MasterOptions options = SmallJob();
    options.job.checkpoint.every_steps = has_one ? 1 : 0;
    FakeJob job(options);
    job.JoinServers();
    job.JoinWorker(0);
    const Task first = job.Lease(0).task;
    job.Commit(0, first, first.begin + 5);
    if (has_one) job.WriteCheckpoint();
    EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);
    job.Done(job.master->Scale({.servers = 3}, job.now));
    job.TakeLaunched(Role::kServer);
    job.JoinServer(2);
    EXPECT_EQ(job.BeatServer(0).checkpoint_wanted, 0);
    MoveAll(job, 3, /*restarts=*/3);
    EXPECT_NEAR(job.master->view().map.PartitionsOf(2).size(), 341.5, 0.6);
    job.Open();
    for (int64_t s = 0; s < 3; ++s) {
      EXPECT_EQ(job.BeatServer(s).checkpoint_wanted, has_one ? 2 : 0) << s;
    }
    if (!has_one) continue;
    job.WriteCheckpoint();
    job.BeatServer(2);  // It has it too: that one beats for the first servers.
    for (int64_t s = 0; s < 3; ++s) EXPECT_EQ(job.BeatServer(s).checkpoint_wanted, 0) << s;
    EXPECT_EQ(job.master->snapshot().checkpoint, 2);
  }
}

// A server that comes back without partitions that are its own has lost them.
TEST(ScaleServersTest, LostPartitionsFailTheJob) {
  FakeJob job;
  RegisterRequest request = {.role = Role::kServer, .id = 0, .incarnation = 1, .version = "1"};
  IntervalSet some;
  some.Add(0, 500);
  request.held = {{some, {}}};
  EXPECT_FALSE(job.Done(job.master->Register(request, job.now)).accepted);
  EXPECT_EQ(job.master->state(), JobState::kFailed);
  EXPECT_NE(job.master->snapshot().error.find("12 of its partitions"), std::string::npos);
}

}  // namespace
}  // namespace rubato
