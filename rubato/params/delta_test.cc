// Checkpoints that hold what changed: a chain of them is the state at its last cut, to the bit,
// whatever was pushed, evicted, given up or restarted in between.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <set>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/move.h"
#include "rubato/params/record_list.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr int64_t kDense = 3 * kDenseSliceFloats;

Declaration Model(const RowsSpec& rows, const std::string& optimizer) {
  Declaration model;
  model.signature.dense_size = kDense;
  model.signature.tables.resize(2);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = 4;
  model.signature.tables[1].name = "wide";
  model.signature.tables[1].dim = 1;
  model.optimizer.name = optimizer;
  if (optimizer != "ftrl") model.optimizer.weight_decay = 0.1;
  model.rows = rows;
  model.seed = 7;
  model.dense.assign(kDense, 0.5f);
  return model;
}

// Some servers, each with its chain of checkpoints and its log since.
class Servers {
 public:
  Servers(uint64_t seed, int64_t servers, const RowsSpec& rows)
      : rng_(seed), map_(PartitionMap::Even(servers)) {
    const std::string optimizer = OptimizerNames()[seed % OptimizerNames().size()];
    all_.resize(static_cast<size_t>(servers));
    for (int64_t s = 0; s < servers; ++s) {
      One& one = all_[static_cast<size_t>(s)];
      one.shard = Fresh(s, servers);
      const std::string body =
          EncodeDeclaration(Model(rows, optimizer), DenseSlices(kDense, map_, s));
      RUBATO_CHECK_OK(one.shard->Declare(body, &one.log));
    }
  }

  std::unique_ptr<Shard> Fresh(int64_t server, int64_t servers) {
    auto shard = std::make_unique<Shard>(
        memory_,
        ShardOptions{.server = server, .servers = servers, .rows_max = 1 << 14, .late_max = 2});
    shard->SetView(1, {WorkerId(1)});
    return shard;
  }

  // The next batch: a few ids, mostly of the last few hundred, and dense weights now and then.
  void Push() {
    std::set<uint64_t> some;
    const uint64_t newest = 100 + static_cast<uint64_t>(pushes_) * 2;
    for (int i = 0; i < 12; ++i) some.insert(Mix(newest - rng_.Below(100)));
    const std::vector<uint64_t> ids(some.begin(), some.end());
    std::vector<float> gradients(ids.size() * 4), dense(rng_.Chance(0.3) ? kDense : 0);
    for (auto* values : {&gradients, &dense}) {
      for (float& g : *values) g = static_cast<float>(rng_.Below(9)) - 4;
    }
    PushRequest request{
        .key = {.begin = pushes_ * 8, .end = pushes_ * 8 + 8}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients},
                      {ids, absl::MakeConstSpan(gradients).subspan(0, ids.size())}};
    request.dense = dense;
    PushSplit split;
    split.Encode(request, map_);
    for (size_t s = 0; s < all_.size(); ++s) {
      const auto outcome =
          all_[s].shard->Push(split.body(static_cast<int64_t>(s)).view(), &all_[s].log);
      RUBATO_CHECK(outcome.ok() && *outcome == PushOutcome::kApplied);
    }
    ++pushes_;
  }

  // Some partitions go from one server to the next, perhaps to return before the next checkpoint.
  void Move() { MoveFrom(static_cast<int64_t>(rng_.Below(all_.size()))); }
  void MoveFrom(int64_t from) {
    const int64_t to = (from + 1) % static_cast<int64_t>(all_.size());
    MoveOrder order = {.number = ++moves_, .from = from, .to = to};
    for (int64_t p = 0; p < kPartitions; ++p) {
      if (map_.OwnerOf(p) == from && p % 4 < 2) order.partitions.Add(p, p + 1);
    }
    if (order.partitions.empty() || from == to) return;
    One& receiver = all_[static_cast<size_t>(to)];
    const auto send = [&](const std::vector<MoveRecord>& records) {
      for (const auto& [kind, body] : records) {
        RUBATO_CHECK_OK(receiver.shard->Arrive(kind, body, &receiver.log));
      }
      return !records.empty();
    };
    {
      MoveSender sender(*all_[static_cast<size_t>(from)].shard, order, /*attempt=*/1);
      // What is pushed meanwhile makes rows late, which go bit by bit when all has moved.
      while (send(sender.Step())) {
        if (rng_.Chance(0.3)) Push();
      }
      while (!sender.finished()) send(sender.Finish());
    }
    map_.Move(order.partitions, to);
    for (One& one : all_) {
      RUBATO_CHECK_OK(one.shard->SetMap(map_, &one.log));
      while (one.shard->Tidy()) {
      }
    }
  }

  // One version of every server, written while pushes go on. Some die in between and write it
  // again.
  void Checkpoint() {
    ++version_;
    for (size_t s = 0; s < all_.size(); ++s) {
      while (rng_.Chance(0.3)) Write(s, /*gives_up=*/true);
      Write(s, /*gives_up=*/false);
    }
  }

  // From its disk.
  void Restart(size_t s) {
    One& one = all_[s];
    const auto servers = static_cast<int64_t>(all_.size());
    auto shard = Fresh(static_cast<int64_t>(s), servers);
    if (!one.files.empty()) RUBATO_CHECK_OK(RestoreChain(*shard, FilesOf(s)));
    RUBATO_CHECK_OK(one.log.ReplayInto(*shard));
    RUBATO_CHECK_OK(shard->SetMap(map_, &one.log));  // As it registers.
    RUBATO_CHECK(shard->Export() == one.shard->Export());
    one.shard = std::move(shard);
  }

  std::vector<CheckpointFile> FilesOf(size_t s) const {
    std::vector<CheckpointFile> files;
    for (const auto& [name, bytes] : all_[s].files) {
      files.push_back({absl::StrCat(name.version, "/server-", s), bytes});
    }
    return files;
  }
  std::vector<CheckpointFile> AllFiles() const {
    std::vector<CheckpointFile> files;
    for (size_t s = 0; s < all_.size(); ++s) {
      for (const CheckpointFile& file : FilesOf(s)) files.push_back(file);
    }
    return files;
  }
  std::map<std::string, std::string> Everything() const {
    std::map<std::string, std::string> everything;
    for (const One& one : all_) {
      one.shard->VisitState([&](const std::string& name, absl::string_view state) {
        everything.emplace(name, std::string(state));
      });
    }
    return everything;
  }
  Shard& shard(size_t s) { return *all_[s].shard; }
  Rng& rng() { return rng_; }
  int64_t deltas() const { return deltas_; }
  int64_t moves() const { return moves_; }
  int64_t evicted() const {
    int64_t evicted = 0;
    for (const One& one : all_) evicted += one.shard->counters().rows_evicted;
    return evicted;
  }

 private:
  struct One {
    std::unique_ptr<Shard> shard;
    std::vector<std::pair<CheckpointName, std::string>> files;  // The newest chain.
    RecordList log;                                             // Since.
  };

  void Write(size_t s, bool gives_up) {
    One& one = all_[s];
    CheckpointName name = {.version = version_,
                           .first_segment = ++segment_,
                           .server = static_cast<int64_t>(s),
                           .servers = static_cast<int64_t>(all_.size())};
    if (!one.files.empty() && one.shard->changes_known() && rng_.Chance(0.8)) {
      name.base = one.files.back().first.version;
      name.base_segment = one.files.back().first.first_segment;
    }
    const std::string cut = one.shard->Export();
    const ShardCounters counted = one.shard->counters();
    const size_t logged = one.log.records.size();
    StringSink file;
    CheckpointWriter writer(*one.shard, name);
    while (!*writer.Step(file, [&] { return rng_.Chance(0.3); })) {
      for (uint64_t n = rng_.Below(3); n > 0; --n) Push();
      if (gives_up && rng_.Chance(0.2)) return;
    }
    if (gives_up) return;
    writer.Published();
    deltas_ += name.base > 0;
    if (name.base == 0) one.files.clear();
    one.files.emplace_back(name, file.bytes());
    one.log.records.erase(one.log.records.begin(),
                          one.log.records.begin() + static_cast<std::ptrdiff_t>(logged));
    const auto restored = Fresh(name.server, name.servers);
    RUBATO_CHECK_OK(RestoreChain(*restored, FilesOf(s)));
    RUBATO_CHECK(restored->Export() == cut);
    const ShardCounters again = restored->counters();
    RUBATO_CHECK(again.rows_admitted == counted.rows_admitted);
    RUBATO_CHECK(again.rows_refused == counted.rows_refused);
    RUBATO_CHECK(again.rows_evicted == counted.rows_evicted);
  }

  Rng rng_;
  SystemMemory memory_{/*huge_pages=*/false};
  PartitionMap map_;
  std::vector<One> all_;
  int64_t pushes_ = 0, version_ = 0, segment_ = 0, deltas_ = 0, moves_ = 0;
};

const RowsSpec kRules[] = {{},
                           {.admit_count = 3},
                           {.capacity = 60},
                           {.ttl_steps = 9},
                           {.admit_count = 2, .admit_probability = 0.7, .capacity = 80},
                           {.admit_count = 3, .ttl_steps = 5},
                           // Longer than from one cut to the next.
                           {.admit_count = 5, .ttl_steps = 60}};

TEST(DeltaTest, AChainIsTheStateAtItsLastCut) {
  int64_t deltas = 0, evicted = 0, moves = 0;
  for (uint64_t seed = 0; seed < 28; ++seed) {
    Servers servers(seed, 1 + static_cast<int64_t>(seed % 3), kRules[seed % std::size(kRules)]);
    for (int event = 0; event < 40; ++event) {
      for (uint64_t n = servers.rng().Below(8); n > 0; --n) servers.Push();
      if (servers.rng().Chance(0.3)) servers.Checkpoint();
      if (servers.rng().Chance(0.15)) servers.Restart(0);
      if (seed % 2 == 1 && servers.rng().Chance(0.4)) servers.Move();
    }
    moves += servers.moves();
    deltas += servers.deltas();
    evicted += servers.evicted();
  }
  EXPECT_GT(deltas, 200);
  EXPECT_GT(evicted, 1000);
  EXPECT_GT(moves, 100);
}

// As of one server, of five, or of as many as wrote it.
TEST(DeltaTest, AnyNumberOfServersGoesOnFromAChain) {
  for (uint64_t seed = 0; seed < 10; ++seed) {
    // A capacity is shared among servers, so another number of them keeps other rows.
    const RowsSpec rules[] = {kRules[0], kRules[1], kRules[3]};
    Servers servers(seed, 3, rules[seed % 3]);
    for (int version = 0; version < 5; ++version) {
      for (int n = 0; n < 20; ++n) servers.Push();
      servers.Checkpoint();
    }
    // What was pushed while they were written is in the logs alone.
    std::map<std::string, std::string> cut;
    for (size_t s = 0; s < 3; ++s) {
      const auto own = servers.Fresh(static_cast<int64_t>(s), 3);
      ASSERT_TRUE(RestoreChain(*own, servers.FilesOf(s)).ok());
      own->VisitState([&](const std::string& name, absl::string_view state) {
        ASSERT_TRUE(cut.emplace(name, std::string(state)).second);
      });
    }
    for (const int64_t after : {1, 3, 5}) {
      std::map<std::string, std::string> all;
      for (int64_t s = 0; s < after; ++s) {
        const auto shard = servers.Fresh(s, after);
        std::vector<CheckpointFile> files = servers.AllFiles();
        std::reverse(files.begin(), files.end());  // Any order will do.
        const absl::Status status = RestoreShard(*shard, files);
        ASSERT_TRUE(status.ok()) << status;
        shard->VisitState([&](const std::string& name, absl::string_view state) {
          ASSERT_TRUE(all.emplace(name, std::string(state)).second);
        });
      }
      ASSERT_TRUE(all == cut) << "seed " << seed << ", " << after << " servers";
    }
  }
}

// Partitions were here, went, forgot rows elsewhere and came back; a checkpoint that had this to
// tell was given up. The next one tells it too, or those rows would come again from the base.
TEST(DeltaTest, WhatCameBackIsNotAsTheBaseHasIt) {
  int64_t deltas = 0;
  for (uint64_t seed = 0; seed < 8; ++seed) {
    Servers servers(seed, 2, {.ttl_steps = 9});
    for (int n = 0; n < 15; ++n) servers.Push();
    servers.Checkpoint();
    servers.MoveFrom(0);
    for (int n = 0; n < 15; ++n) servers.Push();
    servers.MoveFrom(1);
    { CheckpointWriter given_up(servers.shard(0), {.version = 9, .servers = 2}); }
    const int64_t before = servers.deltas();
    servers.Checkpoint();
    deltas += servers.deltas() - before;
  }
  EXPECT_GT(deltas, 4);
}

// What waits for its round is whole in every link, and none of an older one waits any more.
TEST(DeltaTest, TheLastLinkAloneTellsWhatWaits) {
  SystemMemory memory(/*huge_pages=*/false);
  Declaration model = Model({}, "sgd");
  model.mode = PushMode::kSync;
  const ShardOptions options = {.rows_max = 1 << 14};
  Shard shard(memory, options);
  shard.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(model, {{0, kDense}}), nullptr).ok());
  std::vector<std::string> files;
  for (int64_t n = 0; n < 3; ++n) {
    const std::vector<uint64_t> ids = {7, static_cast<uint64_t>(n)};
    const std::vector<float> gradients(8, 1);
    PushRequest request{.key = {.begin = n, .end = n + 1},
                        .worker = WorkerId(1),
                        .view = 1,
                        .records = 1,
                        .round = n,
                        .rounds = n};
    request.tables = {{ids, gradients}, {}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ASSERT_EQ(*shard.Push(split.body(0).view(), nullptr), PushOutcome::kApplied);
    CheckpointWriter writer(shard, {.version = n + 1, .base = n});
    StringSink file;
    while (!*writer.Step(file)) {
    }
    writer.Published();
    files.push_back(file.bytes());
  }
  std::vector<CheckpointFile> chain;
  for (const std::string& bytes : files) chain.push_back({"server-0.ckpt", bytes});
  Shard restored(memory, options);
  const absl::Status status = RestoreChain(restored, chain);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(restored.Export() == shard.Export());
}

TEST(DeltaTest, ServersOfTwoVersionsAreNoCheckpoint) {
  Servers servers(1, 2, {});
  for (int n = 0; n < 5; ++n) servers.Push();
  servers.Checkpoint();
  const std::vector<CheckpointFile> first = servers.FilesOf(1);
  const std::string older(first.back().bytes);
  servers.Push();
  servers.Checkpoint();
  std::vector<CheckpointFile> files = servers.FilesOf(0);
  files.push_back({"1/server-1", older});
  const absl::Status status = RestoreShard(*servers.Fresh(0, 1), files);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("1/server-1: not of the same checkpoint as the others"));
}

class DamageTest : public testing::Test {
 protected:
  DamageTest() : servers_(2, 1, kRules[4]) {
    while (servers_.FilesOf(0).size() < 3) {
      for (int n = 0; n < 10; ++n) servers_.Push();
      servers_.Checkpoint();
    }
    for (const CheckpointFile& file : servers_.FilesOf(0)) {
      paths_.push_back(file.path);
      bytes_.emplace_back(file.bytes);
    }
  }
  absl::Status Restore(const std::vector<size_t>& links) {
    std::vector<CheckpointFile> chain;
    for (const size_t link : links) chain.push_back({paths_[link], bytes_[link]});
    return RestoreChain(*servers_.Fresh(0, 1), chain);
  }

  Servers servers_;
  std::vector<std::string> paths_, bytes_;
};

TEST_F(DamageTest, AFlippedBitOrAMissingEndIsFoundAndNamedInEveryFile) {
  ASSERT_TRUE(Restore({0, 1, 2}).ok());
  for (size_t link = 0; link < bytes_.size(); ++link) {
    const std::string sound = bytes_[link];
    for (size_t at = 0; at < sound.size(); at += at < 200 ? 3 : 131) {
      bytes_[link][at] ^= static_cast<char>(1 << (at % 8));
      const absl::Status status = Restore({0, 1, 2});
      ASSERT_FALSE(status.ok()) << link << " at " << at;
      ASSERT_THAT(std::string(status.message()), HasSubstr(paths_[link]));
      bytes_[link] = sound;
    }
    for (size_t n = 0; n < sound.size(); n += 97) {
      bytes_[link] = sound.substr(0, n);
      const absl::Status status = Restore({0, 1, 2});
      ASSERT_TRUE(absl::IsDataLoss(status)) << status;
      ASSERT_THAT(std::string(status.message()), HasSubstr(paths_[link]));
    }
    bytes_[link] = sound;
  }
}

TEST_F(DamageTest, AMissingLinkIsFoundAndNamed) {
  const auto message = [&](const std::vector<size_t>& links) {
    const absl::Status status = Restore(links);
    EXPECT_TRUE(absl::IsDataLoss(status)) << status;
    return std::string(status.message());
  };
  EXPECT_THAT(message({0, 2}), HasSubstr(paths_[2] + ": built on checkpoint"));
  EXPECT_THAT(message({1, 2}), HasSubstr(paths_[1] + ": built on checkpoint"));
  EXPECT_THAT(message({0, 0}), HasSubstr("a full checkpoint among deltas"));
  EXPECT_TRUE(Restore({0, 1}).ok());
}

// A version that was written again, from another cut, is not what a delta was built on.
TEST_F(DamageTest, ABaseWrittenAnewIsNotTheBase) {
  std::vector<CheckpointFile> chain = servers_.FilesOf(0);
  const auto head = ReadCheckpointHead(chain[0]);
  ASSERT_TRUE(head.ok());
  CheckpointName name = head->name;
  name.first_segment += 100;
  StringSink file;
  CheckpointWriter writer(servers_.shard(0), name);
  while (!*writer.Step(file)) {
  }
  chain[0].bytes = file.bytes();
  const absl::Status status = RestoreChain(*servers_.Fresh(0, 1), chain);
  EXPECT_THAT(std::string(status.message()), HasSubstr("but on another writing of it"));
}

// What is not known to have changed is written, and what is known not to have is not.
TEST(DeltaTest, OnlyWhatChangedIsWritten) {
  Servers servers(0, 1, {});
  for (int n = 0; n < 300; ++n) servers.Push();
  Shard& shard = servers.shard(0);
  EXPECT_FALSE(shard.changes_known());
  const auto write = [&](CheckpointName name, bool published) {
    StringSink file;
    CheckpointWriter writer(shard, name);
    while (!*writer.Step(file)) {
    }
    if (published) writer.Published();
    return file.bytes().size();
  };
  // The first that is not published leaves nothing to build on.
  const size_t full = write({.version = 1}, false);
  EXPECT_FALSE(shard.changes_known());
  EXPECT_EQ(write({.version = 1}, true), full);
  ASSERT_TRUE(shard.changes_known());
  const CheckpointName delta = {.version = 2, .base = 1};
  const size_t nothing = write(delta, false);
  EXPECT_LT(nothing, full / 20);
  servers.Push();
  const size_t one = write(delta, false);
  EXPECT_GT(one, nothing);
  EXPECT_LT(one - nothing, full / 2);
  EXPECT_EQ(write(delta, false), one);  // Still since version 1.
  EXPECT_EQ(write(delta, true), one);
  EXPECT_EQ(write({.version = 3, .base = 2}, true), nothing);
}

// A table that forgets more than it holds is not worth a list of what went.
TEST(RowChangesTest, TooMuchToNoteIsUnknown) {
  RowChanges changes;
  EXPECT_FALSE(changes.known());
  changes.Cut(100);
  ASSERT_TRUE(changes.known());
  for (uint64_t id = 0; id < 10; ++id) changes.Gone(id, 10);
  ASSERT_TRUE(changes.known());
  changes.Counted(3, 10);
  EXPECT_FALSE(changes.known());
  RowChanges later = changes.Cut(100);
  EXPECT_FALSE(later.known());
  ASSERT_TRUE(changes.known());
  changes.Mark(1000);
  EXPECT_TRUE(changes.Has(1000));
  EXPECT_FALSE(changes.Has(999));
  changes.Join(
      std::move(later));  // That cut was not: what changed before it is as unknown as ever.
  EXPECT_FALSE(changes.known());
}

}  // namespace
}  // namespace rubato
