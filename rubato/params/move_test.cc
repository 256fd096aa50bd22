// Partitions that move while batches are pushed and servers die: in the end everything is as if
// one server had taken every batch once.
#include "rubato/params/move.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <deque>
#include <map>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/plain_model.h"
#include "rubato/params/record_list.h"
#include "rubato/params/string_sink.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr int64_t kDense = 20000;
constexpr int64_t kBatch = 8;

struct Rules {
  OptimizerSpec optimizer;
  RowsSpec rows;
};

Declaration Model(const Rules& rules) {
  Declaration model;
  model.signature.dense_size = kDense;
  model.signature.tables.resize(2);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = 4;
  model.signature.tables[1].name = "wide";
  model.signature.tables[1].dim = 1;
  model.optimizer = rules.optimizer;
  model.rows = rules.rows;
  model.seed = 7;
  model.dense.assign(kDense, 0.5f);
  return model;
}

// A whole number, so that sums are exact in any order.
PushRequest BatchAt(int64_t number, std::vector<uint64_t>* ids, std::vector<float>* gradients,
                    std::vector<float>* dense) {
  Rng rng(Mix(static_cast<uint64_t>(number), 3));
  std::set<uint64_t> some;
  for (int i = 0; i < 30; ++i) some.insert(rng.Below(400));
  ids->assign(some.begin(), some.end());
  gradients->clear();
  for (size_t i = 0; i < ids->size() * 4; ++i) {
    gradients->push_back(static_cast<float>(rng.Below(5)) - 2);
  }
  dense->clear();
  for (int64_t i = 0; i < kDense; ++i) dense->push_back(static_cast<float>((i + number) % 3));
  PushRequest request{.key = {.begin = number * kBatch, .end = (number + 1) * kBatch},
                      .worker = WorkerId(1),
                      .view = 1};
  request.tables = {{*ids, *gradients},
                    {*ids, absl::MakeConstSpan(*gradients).subspan(0, ids->size())}};
  request.dense = *dense;
  return request;
}

// A server that can die: what is left of it then is its log, and perhaps a checkpoint.
class Server {
 public:
  Server(int64_t id, int64_t servers) : id_(id), servers_(servers) { Live(); }

  void Live() {
    source_.reset();
    ++life_;
    shard_ = std::make_unique<Shard>(
        memory_, ShardOptions{.server = id_, .servers = servers_, .rows_max = 1 << 14});
    if (!files_.empty()) RUBATO_CHECK_OK(RestoreChain(*shard_, Files()));
    RUBATO_CHECK_OK(log_.ReplayInto(*shard_));
    shard_->SetView(1, {WorkerId(1)});
    source_ = std::make_unique<MoveSource>(*shard_, life_);
  }
  // The log starts anew with it. Sometimes it is given up half-way; often it holds only what
  // changed since the last one that was not.
  void Checkpoint(Rng& rng) {
    if (!shard_->settled() || shard_->observed()) return;
    CheckpointName name = {
        .version = version_ + 1, .first_segment = ++segment_, .server = id_, .servers = servers_};
    if (!files_.empty() && shard_->changes_known() && rng.Chance(0.8)) {
      name.base = version_;
      name.base_segment = base_segment_;
      ++deltas_;
    }
    StringSink file;
    CheckpointWriter writer(*shard_, name);
    while (!*writer.Step(file)) {
      if (rng.Chance(0.05)) return;
    }
    writer.Published();
    if (name.base == 0) files_.clear();
    files_.push_back(file.bytes());
    ++version_;
    base_segment_ = segment_;
    log_.records.clear();
    Shard restored(memory_, shard_->options());
    RUBATO_CHECK_OK(RestoreChain(restored, Files()));
    RUBATO_CHECK(restored.Export() == shard_->Export());
  }
  int64_t deltas() const { return deltas_; }
  void Hear(const PartitionMap& map, const MoveOrder& order) {
    source_->SetOrder(order);
    const absl::Status status = shard_->SetMap(map, &log_);
    ASSERT_TRUE(status.ok()) << status;
  }
  Shard& shard() { return *shard_; }
  MoveSource& source() { return *source_; }
  RecordList& log() { return log_; }

 private:
  std::vector<CheckpointFile> Files() const {
    std::vector<CheckpointFile> files;
    for (const std::string& bytes : files_) files.push_back({"server.ckpt", bytes});
    return files;
  }

  const int64_t id_, servers_;
  int64_t life_ = 0;
  int64_t version_ = 0, segment_ = 0, base_segment_ = 0, deltas_ = 0;
  SystemMemory memory_{/*huge_pages=*/false};
  std::vector<std::string> files_;  // A chain.
  RecordList log_;
  std::unique_ptr<Shard> shard_;
  std::unique_ptr<MoveSource> source_;
};

class Cluster {
 public:
  Cluster(uint64_t seed, int64_t servers, int64_t more, const Rules& rules)
      : rng_(seed), map_(PartitionMap::Even(servers)), rules_(rules) {
    const Declaration model = Model(rules);
    for (int64_t s = 0; s < servers + more; ++s) {
      servers_.push_back(std::make_unique<Server>(s, servers));
      if (s >= servers) continue;
      const std::string body = EncodeDeclaration(model, DenseSlices(kDense, map_, s));
      RUBATO_CHECK_OK(servers_.back()->shard().Declare(body, &servers_.back()->log()));
    }
  }

  // Pushes batch `number` to whoever owns what, until everyone has it. What happens in between is
  // up to chance, and so is how much the client knows of it.
  void Push(int64_t number) {
    std::vector<uint64_t> ids;
    std::vector<float> gradients, dense;
    const PushRequest request = BatchAt(number, &ids, &gradients, &dense);
    PartitionMap known = map_;
    while (true) {
      PushSplit split;
      split.Encode(request, known);
      std::set<int64_t> missing;
      for (int64_t s = 0; s < known.servers(); ++s) {
        if (!known.PartitionsOf(s).empty()) missing.insert(s);
      }
      bool refused = false;
      while (!missing.empty() && !refused) {
        for (uint64_t n = rng_.Below(12); n > 0; --n) Happen();
        auto it = missing.begin();
        std::advance(it, rng_.Below(missing.size()));
        Server& server = *servers_[static_cast<size_t>(*it)];
        if (server.source().frozen()) continue;  // Held.
        const auto outcome = server.shard().Push(split.body(*it).view(), &server.log());
        if (absl::IsAborted(outcome.status())) {
          refused = true;
          continue;
        }
        ASSERT_TRUE(outcome.ok()) << outcome.status();
        if (rng_.Chance(0.3)) continue;  // The answer is lost: it is asked again.
        missing.erase(it);
      }
      if (!refused) return;
      known = map_;
      Happen();
    }
  }

  // One thing of many.
  void Happen() {
    const size_t any = rng_.Below(servers_.size());
    switch (rng_.Below(12)) {
      case 0:
        if (rng_.Chance(0.2)) Kill(any);
        return;
      case 1:
        if (rng_.Chance(0.6)) {
          if (order_.number > 0) return;
          servers_[any]->Checkpoint(rng_);
        }
        return;
      case 2:
        if (order_.number == 0 && rng_.Chance(0.5)) Order();
        return;
      case 3:
        servers_[any]->Hear(map_, order_);
        return;
      case 4:
        servers_[any]->shard().Tidy();
        return;
      case 5:
        if (order_.number == 0) return;
        if (rng_.Chance(0.2)) {
          From().source().Lost();
          line_.clear();
        }
        From().source().Connected();
        return;
      default:
        Carry();
    }
  }
  // Everything under way comes to its end.
  void Settle() {
    while (order_.number > 0) {
      To().Hear(map_, order_);  // What came before may still wait for its map.
      From().Hear(map_, order_);
      From().source().Connected();
      Carry();
    }
    for (const auto& server : servers_) server->Hear(map_, order_);
  }

  std::map<std::string, std::string> Everything() {
    std::map<std::string, std::string> all;
    for (const auto& server : servers_) {
      server->shard().VisitState([&](const std::string& name, absl::string_view state) {
        const bool row = !absl::StartsWith(name, "dense") && !absl::StrContains(name, "counted");
        // Its place among the rows of a push hangs on who else was in it.
        if (row && rules_.rows.ttl_steps > 0) state.remove_suffix(sizeof(float));
        EXPECT_TRUE(all.emplace(name, std::string(state)).second) << name;
      });
    }
    return all;
  }
  const std::vector<std::unique_ptr<Server>>& servers() const { return servers_; }
  int64_t deltas() const {
    int64_t deltas = 0;
    for (const auto& server : servers_) deltas += server->deltas();
    return deltas;
  }
  int64_t kills() const { return kills_; }
  int64_t moves() const { return moves_; }
  int64_t moves_begun_anew() const { return anew_; }

 private:
  Server& From() { return *servers_[static_cast<size_t>(order_.from)]; }
  Server& To() { return *servers_[static_cast<size_t>(order_.to)]; }

  void Kill(size_t server) {
    ++kills_;
    servers_[server]->Live();
    servers_[server]->Hear(map_, order_);  // As it registers.
    const auto id = static_cast<int64_t>(server);
    if (order_.number == 0 || (id != order_.from && id != order_.to)) return;
    anew_ += !line_.empty();
    if (order_.to == id) From().source().Lost();
    line_.clear();
  }
  void Order() {
    const auto from = static_cast<int64_t>(rng_.Below(servers_.size()));
    const auto to = static_cast<int64_t>(rng_.Below(servers_.size()));
    const IntervalSet owned = map_.PartitionsOf(from);
    if (from == to || owned.empty()) return;
    order_ = {.number = ++orders_, .from = from, .to = to};
    for (const Interval& run : owned.Intervals()) {
      for (int64_t p = run.begin; p < run.end; ++p) {
        if (rng_.Chance(0.05)) order_.partitions.Add(p, p + 1);
      }
    }
    if (order_.partitions.empty()) order_.partitions = owned;
    line_.clear();
  }
  // Some records go over the line, perhaps twice; the master hears when all are there.
  void Carry() {
    if (order_.number == 0) return;
    for (MoveRecord& record : From().source().Next()) line_.push_back(std::move(record));
    if (!line_.empty()) {
      const absl::Status status =
          To().shard().Arrive(line_.front().first, line_.front().second, &To().log());
      if (rng_.Chance(0.1)) {
        ASSERT_EQ(To().shard().Arrive(line_.front().first, line_.front().second, &To().log()).ok(),
                  status.ok());
      }
      line_.pop_front();
      ASSERT_TRUE(status.ok() || absl::IsAborted(status)) << status;
      if (!status.ok()) line_.clear();
      From().source().Answered(status);
    }
    if (From().source().ready() != order_.number) return;
    map_.Move(order_.partitions, order_.to);
    order_ = {};
    ++moves_;
  }

  Rng rng_;
  PartitionMap map_;
  Rules rules_;
  MoveOrder order_;
  int64_t orders_ = 0, kills_ = 0, moves_ = 0, anew_ = 0;
  std::deque<MoveRecord> line_;
  std::vector<std::unique_ptr<Server>> servers_;
};

TEST(MoveTest, WhoeverDiesWhenEveryPushCountsOnce) {
  const Rules rules[] = {
      {.optimizer = {.name = "sgd", .learning_rate = 1}},
      {.optimizer = {.name = "adam",
                     .weight_decay = 0.1,
                     .schedule = {.name = "cosine", .warmup = 64, .samples = 500}},
       .rows = {.admit_count = 3}},
      {.optimizer = {.name = "adagrad"}, .rows = {.admit_count = 2, .admit_probability = 0.8}},
      // Counts that are forgotten by the steps of their own partition, and never become rows.
      {.optimizer = {.name = "sgd"}, .rows = {.admit_count = 100, .ttl_steps = 4}},
  };
  int64_t kills = 0, moves = 0, anew = 0, deltas = 0;
  for (uint64_t seed = 0; seed < 40; ++seed) {
    Cluster cluster(seed, 1 + static_cast<int64_t>(seed % 3), 2, rules[seed % 4]);
    Cluster calm(seed, 1, 0, rules[seed % 4]);
    constexpr int64_t kPushes = 40;
    for (int64_t number = 0; number < kPushes; ++number) cluster.Push(number);
    cluster.Settle();
    for (int64_t number = 0; number < kPushes; ++number) {
      std::vector<uint64_t> ids;
      std::vector<float> gradients, dense;
      PushSplit split;
      split.Encode(BatchAt(number, &ids, &gradients, &dense), PartitionMap::Even(1));
      ASSERT_TRUE(calm.servers()[0]->shard().Push(split.body(0).view(), nullptr).ok());
    }
    for (const auto& server : cluster.servers()) {
      ASSERT_LE(server->shard().histories().size(), 1u) << seed;
      ASSERT_EQ(server->shard().uneven(), 0);
    }
    ASSERT_TRUE(cluster.Everything() == calm.Everything()) << "seed " << seed;
    kills += cluster.kills();
    moves += cluster.moves();
    anew += cluster.moves_begun_anew();
    deltas += cluster.deltas();
  }
  std::cout << kills << " kills, " << moves << " moves, " << anew << " begun anew, " << deltas
            << " deltas\n";
  EXPECT_GT(kills, 500);
  EXPECT_GT(moves, 300);
  EXPECT_GT(anew, 20);
  EXPECT_GT(deltas, 200);
}

// One that gave all away and died since has no model any more. Whoever asks it by an older map is
// told of the newer one, and not that something is wrong.
TEST(MovedAwayTest, WhoOwnsNothingAndKnowsNoModelDisowns) {
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.server = 2, .servers = 2, .rows_max = 1 << 10});
  shard.SetView(1, {WorkerId(1)});
  PartitionMap all = PartitionMap::Even(2);
  all.Move(AllPartitions(), 2);
  std::vector<uint64_t> ids;
  std::vector<float> gradients, dense;
  const PushRequest request = BatchAt(0, &ids, &gradients, &dense);
  PushSplit push;
  push.Encode(request, all);
  EXPECT_TRUE(absl::IsAborted(shard.Push(push.body(2).view(), nullptr).status()));
  std::vector<float> rows(ids.size() * 4);
  PullSplit pull;
  pull.Encode({.tables = {{ids, absl::MakeSpan(rows)}}, .dense = {}}, all);
  Buffer reply;
  EXPECT_TRUE(absl::IsAborted(shard.Pull(pull.body(2).view(), &reply)));
  const Declaration model = Model({});
  EXPECT_TRUE(absl::IsAborted(
      shard.Declare(EncodeDeclaration(model, DenseSlices(kDense, all, 2)), nullptr)));
}

std::map<std::string, std::string> StateOf(const Shard& shard) {
  std::map<std::string, std::string> state;
  shard.VisitState([&](const std::string& name, absl::string_view bytes) {
    state.emplace(name, std::string(bytes));
  });
  return state;
}

// What goes while requests wait goes bit by bit, so that it need not all be encoded before the
// first is on its way: dense weights, and gradients that wait for their round.
TEST(MoveTest, WhatIsLeftGoesInBits) {
  constexpr int64_t kDense = 1'000'000, kDim = 16;
  constexpr size_t kBytes = size_t{2} << 20;
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 17});
  Shard receiver(memory, {.server = 1, .servers = 1, .rows_max = 1 << 17});
  Declaration model = PlainModel(kDense, kDim, 0.5f);
  model.mode = PushMode::kSync;
  PartitionMap map = PartitionMap::Even(1);
  giver.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(giver.Declare(EncodeDeclaration(model, DenseSlices(kDense, map, 0)), nullptr).ok());
  for (int64_t n = 0; n < 4; ++n) {
    std::vector<uint64_t> ids(10000);
    for (size_t i = 0; i < ids.size(); ++i) ids[i] = static_cast<uint64_t>(n) * 5000 + i;
    const std::vector<float> gradients(ids.size() * kDim, 0.25f);
    PushRequest request{.key = {.begin = n, .end = n + 1}, .worker = WorkerId(1), .view = 1};
    request.records = 1;
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, map);
    ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
  }
  MoveOrder order = {.number = 1, .from = 0, .to = 1, .partitions = map.PartitionsOf(0)};
  MoveSender sender(giver, order, 1);
  int times = 0;
  for (; !sender.finished(); ++times) {
    size_t bytes = 0;
    for (const auto& [kind, body] : sender.Finish()) {
      bytes += body.size();
      const absl::Status status = receiver.Arrive(kind, body, nullptr);
      ASSERT_TRUE(status.ok()) << status;
    }
    EXPECT_LE(bytes, kBytes) << times;
  }
  EXPECT_GT(times, 5);
  map.Move(order.partitions, 1);
  ASSERT_TRUE(receiver.SetMap(map, nullptr).ok());
  for (Shard* shard : {&giver, &receiver}) ASSERT_TRUE(shard->Whole(1).ok());
  EXPECT_EQ(receiver.rows(), 25000);
  EXPECT_TRUE(StateOf(receiver) == StateOf(giver));
}

// A partition's rows may be many times what a frame may hold.
TEST(MoveTest, LongRowsGoInManyRecords) {
  constexpr uint64_t kRows = 300;
  constexpr int64_t kDim = 4096, kPartition = 700;
  SystemMemory memory(/*huge_pages=*/false);
  Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 16});
  Shard receiver(memory, {.server = 1, .servers = 1, .rows_max = 1 << 16});
  Declaration model;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "long";
  model.signature.tables[0].dim = kDim;
  giver.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(giver.Declare(EncodeDeclaration(model, {}), nullptr).ok());
  std::vector<uint64_t> ids;
  for (uint64_t i = 0; i < kRows; ++i) ids.push_back(IdOf(FirstPoint(kPartition) + i * 1'000'003));
  const std::vector<float> gradients(kRows * kDim, 1.0f);
  PushRequest request{.key = {.begin = 0, .end = 1}, .worker = WorkerId(1), .view = 1};
  request.tables = {{ids, gradients}};
  PushSplit split;
  split.Encode(request, PartitionMap::Even(1));
  ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
  IntervalSet one;
  one.Add(kPartition, kPartition + 1);
  MoveSender sender(giver, {.number = 1, .from = 0, .to = 1, .partitions = one}, 1);
  while (!sender.finished()) {
    for (const auto& [kind, body] : sender.Finish()) {
      EXPECT_LT(body.size(), 1'200'000u);
      const absl::Status status = receiver.Arrive(kind, body, nullptr);
      ASSERT_TRUE(status.ok()) << status;
    }
  }
  EXPECT_EQ(receiver.arrived(), one);
  EXPECT_EQ(receiver.rows(), static_cast<int64_t>(kRows));
}

// Nor is a partition copied in one go, while pushes wait: they come between its parts, to rows
// that were sent, to others, and to new ones, and all arrive as they are in the end.
TEST(MoveTest, ALargePartitionGoesInManySteps) {
  constexpr size_t kRows = 3000;
  constexpr int64_t kDim = 400, kPartition = 700;
  for (const bool crowded : {false, true}) {  // Spread as ids are, or all in a 16th.
    SystemMemory memory(/*huge_pages=*/false);
    Shard giver(memory, {.server = 0, .servers = 1, .rows_max = 1 << 22});
    Shard receiver(memory, {.server = 1, .servers = 1, .rows_max = 1 << 22});
    Declaration model;
    model.signature.tables.resize(1);
    model.signature.tables[0].name = "large";
    model.signature.tables[0].dim = kDim;
    giver.SetView(1, {WorkerId(1)});
    ASSERT_TRUE(giver.Declare(EncodeDeclaration(model, {}), nullptr).ok());
    const uint64_t apart = FirstPoint(1) / (2 * kRows) / (crowded ? 16 : 1);
    int64_t pushes = 0;
    const auto push = [&](const std::vector<uint64_t>& ids) {
      const std::vector<float> gradients(ids.size() * kDim, 1.0f);
      PushRequest request{
          .key = {.begin = pushes, .end = pushes + 1}, .worker = WorkerId(1), .view = 1};
      ++pushes;
      request.tables = {{ids, gradients}};
      PushSplit split;
      split.Encode(request, PartitionMap::Even(1));
      ASSERT_TRUE(giver.Push(split.body(0).view(), nullptr).ok());
    };
    const auto id_at = [&](uint64_t place) { return IdOf(FirstPoint(kPartition) + place * apart); };
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < kRows; ++i) ids.push_back(id_at(2 * i));
    push(ids);
    PartitionMap map = PartitionMap::Even(1);
    IntervalSet one;
    one.Add(kPartition, kPartition + 1);
    MoveSender sender(giver, {.number = 1, .from = 0, .to = 1, .partitions = one}, 1);
    const auto take = [&](const std::vector<MoveRecord>& records) {
      size_t bytes = 0;
      for (const auto& [kind, body] : records) {
        bytes += body.size();
        const absl::Status status = receiver.Arrive(kind, body, nullptr);
        EXPECT_TRUE(status.ok()) << status;
      }
      return bytes;
    };
    Rng rng(1);
    int steps = 0;
    for (;; ++steps) {
      const std::vector<MoveRecord> records = sender.Step();
      if (records.empty()) break;
      EXPECT_LT(take(records), 2'200'000u);
      std::set<uint64_t> some;
      for (int i = 0; i < 20; ++i) some.insert(id_at(rng.Below(2 * kRows)));
      push({some.begin(), some.end()});
    }
    EXPECT_GE(steps, 4);
    EXPECT_LE(steps, 20);
    while (!sender.finished()) EXPECT_LT(take(sender.Finish()), 1'300'000u);
    map.Move(one, 1);
    ASSERT_TRUE(receiver.SetMap(map, nullptr).ok());
    const auto state = [](const Shard& shard) {
      std::map<std::string, std::string> all;
      shard.VisitState(
          [&](const std::string& name, absl::string_view bytes) { all.emplace(name, bytes); });
      return all;
    };
    EXPECT_GT(giver.rows(), static_cast<int64_t>(kRows));
    EXPECT_TRUE(state(giver) == state(receiver));
  }
}

}  // namespace
}  // namespace rubato
