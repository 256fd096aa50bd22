#include "rubato/params/shard.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <set>

#include "rubato/base/rng.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/string_sink.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// One job's world: a model of two tables and a few dense weights, and batches made from a seed.
class ShardTest : public testing::Test {
 protected:
  Declaration Model() {
    Declaration model;
    model.signature.dense_size = dense_size_;
    model.signature.tables.resize(2);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = 4;
    model.signature.tables[1].name = "wide";
    model.signature.tables[1].dim = 1;
    model.signature.tables[1].initializer.name = "zeros";
    model.optimizer = optimizer_;
    model.rows = row_rules_;
    model.seed = 7;
    model.dense.assign(static_cast<size_t>(dense_size_), 0.5f);
    return model;
  }
  ShardOptions Options(int64_t server = 0, int64_t servers = 1) {
    return {.server = server, .servers = servers, .rows_max = rows_max_};
  }
  std::string DeclarationFor(const Shard& shard, const Declaration& model) {
    return EncodeDeclaration(
        model, DenseSlices(model.signature.dense_size, shard.map(), shard.options().server));
  }

  // The bodies of one batch, one a server.
  struct BatchOf {
    BatchKey key;
    int64_t worker = 1;
    int64_t view = 1;
    double rate = 1;
  };
  PushSplit Batch(BatchOf batch, int64_t servers = 1) {
    Rng rng(Mix(static_cast<uint64_t>(batch.key.epoch), static_cast<uint64_t>(batch.key.begin)));
    std::set<uint64_t> deep, wide;
    for (int i = 0; i < 40; ++i) deep.insert(Mix(rng.Below(200)));
    for (int i = 0; i < 20; ++i) wide.insert(rng.Below(50));
    const std::vector<uint64_t> deep_ids(deep.begin(), deep.end()),
        wide_ids(wide.begin(), wide.end());
    std::vector<float> deep_g(deep_ids.size() * 4), wide_g(wide_ids.size()),
        dense(static_cast<size_t>(dense_size_));
    for (auto* values : {&deep_g, &wide_g, &dense}) {
      for (float& g : *values) g = static_cast<float>(rng.Normal());
    }
    PushRequest request{
        .key = batch.key, .worker = WorkerId(batch.worker), .view = batch.view, .rate = batch.rate};
    request.tables = {{deep_ids, deep_g}, {wide_ids, wide_g}};
    request.dense = dense;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(servers));
    return split;
  }
  absl::StatusOr<PushOutcome> Push(Shard& shard, BatchOf batch, RecordSink* log = nullptr) {
    PushSplit split = Batch(batch, shard.options().servers);
    return shard.Push(split.body(shard.options().server).view(), log);
  }
  // A shard that knows workers 1 and 2, with the model declared.
  std::unique_ptr<Shard> Ready(ShardOptions options, RecordSink* log = nullptr) {
    auto shard = std::make_unique<Shard>(memory_, options);
    shard->SetView(1, {WorkerId(1), WorkerId(2)});
    EXPECT_TRUE(shard->Declare(DeclarationFor(*shard, Model()), log).ok());
    return shard;
  }
  absl::StatusOr<RecordsRead> ReplayInto(Shard& shard, absl::string_view log) {
    return ReadRecords("push.log", log, [&](RecordKind kind, absl::string_view body) {
      return shard.Replay(kind, body);
    });
  }

  // What servers hold together, row by row with its state, whoever holds it. Not the place of a
  // row among those of its last push: that is the order in which they would go for lack of room.
  std::map<std::string, std::string> Everything(
      const std::vector<std::unique_ptr<Shard>>& servers) {
    const bool placed = row_rules_.ttl_steps > 0;
    std::map<std::string, std::string> all;
    for (const auto& server : servers) {
      server->VisitState([&](const std::string& name, absl::string_view state) {
        const bool row = name.find("dense") != 0 && name.find("counted") == std::string::npos;
        if (placed && row) state.remove_suffix(sizeof(float));
        EXPECT_TRUE(all.emplace(name, std::string(state)).second) << name;
      });
    }
    return all;
  }

  uint64_t rows_max_ = 4096;
  int64_t dense_size_ = 100;
  OptimizerSpec optimizer_;
  RowsSpec row_rules_;
  SystemMemory memory_{/*huge_pages=*/false};
};

TEST_F(ShardTest, ABatchIsAppliedOnce) {
  const auto shard = Ready(Options());
  const BatchOf batch{.key = {.epoch = 0, .begin = 0, .end = 32}};
  EXPECT_EQ(*Push(*shard, batch), PushOutcome::kApplied);
  const std::string after = shard->Export();
  EXPECT_EQ(*Push(*shard, batch), PushOutcome::kDuplicate);
  EXPECT_EQ(*Push(*shard, {.key = batch.key, .worker = 2}), PushOutcome::kDuplicate);
  EXPECT_TRUE(shard->Export() == after);
  // The same positions of another epoch are another batch.
  EXPECT_EQ(*Push(*shard, {.key = {.epoch = 1, .begin = 0, .end = 32}}), PushOutcome::kApplied);
  EXPECT_EQ(shard->applied().at(0).ToString(), "[0,32)");
  EXPECT_EQ(shard->counters().pushes, 2);
  EXPECT_EQ(shard->counters().duplicates, 2);
}

TEST_F(ShardTest, ABatchCutDifferentlyIsAnError) {
  const auto shard = Ready(Options());
  ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = 0, .end = 32}}).ok());
  const std::string after = shard->Export();
  for (const BatchKey& key : {BatchKey{.begin = 16, .end = 48}, BatchKey{.begin = 0, .end = 33}}) {
    EXPECT_TRUE(absl::IsFailedPrecondition(Push(*shard, {.key = key}).status()));
  }
  EXPECT_TRUE(absl::IsInvalidArgument(Push(*shard, {.key = {.begin = 5, .end = 5}}).status()));
  EXPECT_TRUE(shard->Export() == after);
}

// A frozen worker's late push is refused once the view without it is here; a newcomer's is taken
// even before the view with it is.
TEST_F(ShardTest, TheViewDecidesWhoMayPush) {
  const auto shard = Ready(Options());
  shard->SetView(2, {WorkerId(2)});
  shard->SetView(1, {WorkerId(1), WorkerId(2)});  // Late, and ignored.
  const BatchKey key{.epoch = 0, .begin = 0, .end = 32};
  EXPECT_EQ(*Push(*shard, {.key = key, .worker = 1, .view = 1}), PushOutcome::kFenced);
  EXPECT_EQ(*Push(*shard, {.key = key, .worker = 1, .view = 2}), PushOutcome::kFenced);
  EXPECT_TRUE(shard->applied().empty());
  EXPECT_EQ(*Push(*shard, {.key = key, .worker = 3, .view = 3}), PushOutcome::kApplied);
  EXPECT_EQ(*Push(*shard, {.key = key, .worker = 2, .view = 1}), PushOutcome::kDuplicate);
  EXPECT_EQ(shard->counters().fenced, 2);
}

TEST_F(ShardTest, LaterDeclarationsMustAgree) {
  Shard shard(memory_, Options());
  Buffer reply;
  PullSplit pull;
  pull.Encode({}, PartitionMap::Even(1));
  EXPECT_TRUE(absl::IsFailedPrecondition(shard.Pull(pull.body(0).view(), &reply)));
  Declaration model = Model();
  ASSERT_TRUE(shard.Declare(DeclarationFor(shard, model), nullptr).ok());
  const std::string first = shard.Export();
  model.dense.assign(dense_size_, 0.9f);  // The first one's values count.
  EXPECT_TRUE(shard.Declare(DeclarationFor(shard, model), nullptr).ok());
  EXPECT_TRUE(shard.Export() == first);
  const auto refusal = [&](auto change) {
    Declaration other = Model();
    change(other);
    return std::string(shard.Declare(DeclarationFor(shard, other), nullptr).message());
  };
  EXPECT_THAT(refusal([](auto& m) { m.signature.tables[0].dim = 8; }),
              HasSubstr("table deep: dim 8, but was declared as 4"));
  EXPECT_THAT(refusal([](auto& m) { m.optimizer.name = "sgd"; }),
              HasSubstr("optimizer sgd, but was declared as adagrad"));
  EXPECT_THAT(refusal([](auto& m) { m.seed = 8; }), HasSubstr("seed 8"));
  EXPECT_THAT(refusal([](auto& m) { m.signature.tables.pop_back(); }), HasSubstr("tables 1"));
  EXPECT_THAT(refusal([](auto& m) { m.rows.capacity = 5; }), HasSubstr("other rules for rows"));
  EXPECT_THAT(refusal([](auto& m) { m.signature.tables[0].rows = RowsSpec(); }),
              HasSubstr("table deep: other rules for its rows"));
  EXPECT_THAT(refusal([](auto& m) { m.mode = PushMode::kSync; }), HasSubstr("mode 1"));
  EXPECT_THAT(refusal([](auto& m) { m.scale_stale = true; }), HasSubstr("params.staleness 1"));
}

TEST_F(ShardTest, NotFiniteIsRefusedAndNamed) {
  const auto shard = Ready(Options());
  const std::string before = shard->Export();
  const std::vector<uint64_t> ids = {5, 6};
  std::vector<float> gradients(8, 1);
  gradients[6] = std::numeric_limits<float>::quiet_NaN();
  PushRequest request{.key = {.begin = 0, .end = 2}, .worker = WorkerId(2), .view = 1};
  request.tables = {{ids, gradients}, {}};
  PushSplit split;
  split.Encode(request, PartitionMap::Even(1));
  const auto outcome = shard->Push(split.body(0).view(), nullptr);
  EXPECT_TRUE(absl::IsOutOfRange(outcome.status()));
  EXPECT_THAT(std::string(outcome.status().message()),
              testing::AllOf(HasSubstr("worker-2"), HasSubstr("table deep"),
                             HasSubstr("NaN at element 6")));
  EXPECT_EQ(shard->counters().not_finite, 1);
  EXPECT_TRUE(shard->Export() == before);
}

// If the log cannot take a push, the push has not happened, and can be sent again.
// A push says what the rate is multiplied with, so a log replays to the same weights.
TEST_F(ShardTest, AFallenRateIsInTheLog) {
  optimizer_ = {.name = "sgd", .learning_rate = 0.5};
  const auto weights = [this](Shard& shard) {
    PullSplit pull;
    std::vector<float> dense(static_cast<size_t>(dense_size_));
    pull.Encode({.dense = absl::MakeSpan(dense)}, PartitionMap::Even(1));
    Buffer reply;
    EXPECT_TRUE(shard.Pull(pull.body(0).view(), &reply).ok());
    EXPECT_TRUE(pull.Scatter(0, reply.view()).ok());
    return dense;
  };
  StringSink log;
  const BatchOf batch{.key = {.epoch = 0, .begin = 0, .end = 32}};
  const auto full = Ready(Options()), tenth = Ready(Options(), &log);
  ASSERT_TRUE(Push(*full, batch).ok());
  ASSERT_TRUE(Push(*tenth, {.key = batch.key, .rate = 0.1}, &log).ok());
  const std::vector<float> a = weights(*full), b = weights(*tenth);
  for (size_t i = 0; i < a.size(); ++i) EXPECT_NEAR(b[i] - 0.5f, 0.1f * (a[i] - 0.5f), 1e-6);
  Shard replayed(memory_, Options());
  ASSERT_TRUE(ReplayInto(replayed, log.bytes()).ok());
  EXPECT_TRUE(replayed.Export() == tenth->Export());
  EXPECT_TRUE(absl::IsInvalidArgument(
      Push(*full, {.key = {.epoch = 0, .begin = 32, .end = 64}, .rate = 0}).status()));
}

TEST_F(ShardTest, WhatCannotBeLoggedDoesNotHappen) {
  StringSink log;
  const auto shard = Ready(Options(), &log);
  const std::string before = shard->Export();
  log.set_full(true);
  const BatchOf batch{.key = {.epoch = 0, .begin = 0, .end = 32}};
  EXPECT_TRUE(absl::IsResourceExhausted(Push(*shard, batch, &log).status()));
  EXPECT_TRUE(shard->Export() == before);
  log.set_full(false);
  EXPECT_EQ(*Push(*shard, batch, &log), PushOutcome::kApplied);
}

// Three servers together hold what one would.
TEST_F(ShardTest, SharesTogetherAreTheWhole) {
  const auto whole = Ready(Options());
  std::vector<std::unique_ptr<Shard>> shares;
  for (int64_t s = 0; s < 3; ++s) shares.push_back(Ready(Options(s, 3)));
  for (int64_t begin = 0; begin < 320; begin += 32) {
    const BatchOf batch{.key = {.epoch = 0, .begin = begin, .end = begin + 32}};
    ASSERT_EQ(*Push(*whole, batch), PushOutcome::kApplied);
    for (const auto& share : shares) ASSERT_EQ(*Push(*share, batch), PushOutcome::kApplied);
  }
  std::vector<uint64_t> ids;
  for (uint64_t n = 0; n < 300; ++n) ids.push_back(Mix(n));
  const auto pull = [&](const std::vector<Shard*>& from) {
    std::vector<float> deep(ids.size() * 4), wide(ids.size()),
        dense(static_cast<size_t>(dense_size_));
    PullSplit split;
    split.Encode({.tables = {{ids, absl::MakeSpan(deep)}, {ids, absl::MakeSpan(wide)}},
                  .dense = absl::MakeSpan(dense)},
                 PartitionMap::Even(static_cast<int64_t>(from.size())));
    for (size_t s = 0; s < from.size(); ++s) {
      Buffer reply;
      EXPECT_TRUE(from[s]->Pull(split.body(static_cast<int64_t>(s)).view(), &reply).ok());
      EXPECT_TRUE(split.Scatter(static_cast<int64_t>(s), reply.view()).ok());
    }
    deep.insert(deep.end(), wide.begin(), wide.end());
    deep.insert(deep.end(), dense.begin(), dense.end());
    return deep;
  };
  EXPECT_EQ(pull({whole.get()}), pull({shares[0].get(), shares[1].get(), shares[2].get()}));
  EXPECT_EQ(whole->rows(), shares[0]->rows() + shares[1]->rows() + shares[2]->rows());
}

// ---- the log ----

// A log cut at any byte restores the state after some whole number of pushes; a log with any bit
// flipped is refused, and says where.
TEST_F(ShardTest, ALogCutAnywhereGivesAPrefix) {
  StringSink log;
  const auto shard = Ready(Options(1, 2), &log);
  std::vector<std::string> states = {Shard(memory_, Options(1, 2)).Export(), shard->Export()};
  for (int64_t begin = 0; begin < 160; begin += 32) {
    ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = begin, .end = begin + 32}}, &log).ok());
    states.push_back(shard->Export());
  }
  for (size_t n = 0; n <= log.bytes().size(); n += 13) {
    const std::string cut = log.bytes().substr(0, n);
    const auto& ends = log.ends();
    const auto whole =
        static_cast<size_t>(std::upper_bound(ends.begin(), ends.end(), n) - ends.begin());
    Shard replayed(memory_, Options(1, 2));
    const auto read = ReplayInto(replayed, cut);
    ASSERT_TRUE(read.ok()) << n << read.status();
    ASSERT_TRUE(replayed.Export() == states[whole]) << n;
    ASSERT_EQ(read->torn, n != kFileHeaderBytes && (whole == 0 || n != ends[whole - 1])) << n;
  }
}

TEST_F(ShardTest, AFlippedBitAnywhereInTheLogIsFound) {
  StringSink log;
  const auto shard = Ready(Options(), &log);
  ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = 0, .end = 32}}, &log).ok());
  for (size_t at = 0; at < log.bytes().size(); at += at < 100 ? 1 : 7) {
    std::string flipped = log.bytes();
    flipped[at] ^= static_cast<char>(1 << (at % 8));
    Shard replayed(memory_, Options());
    const auto read = ReplayInto(replayed, flipped);
    ASSERT_FALSE(read.ok()) << at;
    ASSERT_THAT(std::string(read.status().message()), HasSubstr("push.log: damaged at byte"));
  }
}

TEST_F(ShardTest, AFileOfAnotherFormatIsNamed) {
  EXPECT_THAT(
      std::string(ReadRecords("old.log", std::string(64, 'x'),
                              [](RecordKind, absl::string_view) { return absl::OkStatus(); })
                      .status()
                      .message()),
      HasSubstr("old.log: damaged at byte 0: not a file of Rubato's servers"));
}

TEST_F(ShardTest, AFileOfAnotherVersionIsNamed) {
  const FileHeaderBytes old = EncodeFileHeader(1);
  const auto read = ReadRecords("old.ckpt", {old.data(), old.size()},
                                [](RecordKind, absl::string_view) { return absl::OkStatus(); });
  EXPECT_TRUE(absl::IsInvalidArgument(read.status()));
  EXPECT_EQ(read.status().message(),
            "old.ckpt: written in format 1, this Rubato reads formats 4 and 5");
}

// ---- checkpoints ----

class CheckpointTest : public ShardTest {
 protected:
  absl::Status Restore(Shard& shard, absl::string_view bytes) {
    CheckpointReader reader(shard, bytes.size());
    const auto read = ReadRecords(
        "server-0.ckpt", bytes,
        [&](RecordKind kind, absl::string_view body) { return reader.Add(kind, body); });
    if (!read.ok()) return read.status();
    return reader.Finish();
  }
  std::string Written(Shard& shard) {
    StringSink file;
    const ShardOptions& options = shard.options();
    CheckpointWriter writer(shard,
                            {.version = 1, .server = options.server, .servers = options.servers});
    while (!*writer.Step(file)) {
    }
    return file.bytes();
  }
};

// However pushes fall between the steps of a checkpoint, the file holds the instant of the cut, and
// with the log since then gives the live state, to the bit.
TEST_F(CheckpointTest, CheckpointAndLogGiveTheLiveState) {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Rng rng(seed);
    StringSink old_log, new_log, file;
    const int64_t server = static_cast<int64_t>(seed % 2);
    optimizer_ = {.name = OptimizerNames()[seed % OptimizerNames().size()]};
    if (optimizer_.name != "ftrl") {  // The number of steps, and of samples, must come back too.
      optimizer_.weight_decay = 0.1;
      optimizer_.schedule = {.name = "cosine", .warmup = 64, .samples = 500};
    }
    // Counts and the order of rows too; some go, and come again, while the file is written.
    const RowsSpec rules[] = {{},
                              {.admit_count = 3},
                              {.capacity = 60},
                              {.ttl_steps = 2},
                              {.admit_count = 2, .admit_probability = 0.7, .capacity = 80},
                              {.admit_count = 3, .ttl_steps = 5}};
    row_rules_ = rules[seed % std::size(rules)];
    const auto shard = Ready(Options(server, 2), &old_log);
    int64_t begin = 0;
    const auto push = [&](RecordSink* log) {
      ASSERT_EQ(*Push(*shard, {.key = {.epoch = 0, .begin = begin, .end = begin + 32}}, log),
                PushOutcome::kApplied);
      begin += 32;
    };
    for (uint64_t n = rng.Below(10); n > 0; --n) push(&old_log);
    const std::string cut = shard->Export();
    {
      CheckpointWriter writer(*shard, {.version = 1, .server = server, .servers = 2});
      do {
        for (uint64_t n = rng.Below(3); n > 0; --n) push(&new_log);
      } while (!*writer.Step(file));
    }
    push(&new_log);
    Shard restored(memory_, Options(server, 2));
    ASSERT_TRUE(Restore(restored, file.bytes()).ok());
    ASSERT_TRUE(restored.Export() == cut);
    ASSERT_TRUE(ReplayInto(restored, new_log.bytes()).ok());
    ASSERT_TRUE(restored.Export() == shard->Export());
    const ShardCounters was = shard->counters(), is = restored.counters();
    EXPECT_EQ(is.rows_admitted, was.rows_admitted) << seed;
    EXPECT_EQ(is.rows_refused, was.rows_refused) << seed;
    EXPECT_EQ(is.rows_evicted, was.rows_evicted) << seed;
  }
}

// A file of an earlier build, whose head ends with how many rows there are.
TEST_F(CheckpointTest, WhatWasNotCountedIsNotKnown) {
  const auto shard = Ready(Options());
  ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = 0, .end = 32}}).ok());
  for (const bool early : {false, true}) {
    Shard restored(memory_, Options());
    CheckpointReader reader(restored, size_t{1} << 20);
    ASSERT_TRUE(ReadRecords("c", Written(*shard), [&](RecordKind kind, absl::string_view body) {
                  const bool head = kind == RecordKind::kCheckpointHead;
                  if (head && early) body.remove_suffix(2 * sizeof(TableCounters));
                  return reader.Add(kind, body);
                }).ok());
    ASSERT_TRUE(reader.Finish().ok());
    EXPECT_TRUE(restored.Export() == shard->Export());
    ServerInspection inspection;
    restored.Inspect(&inspection);
    EXPECT_EQ(inspection.uncounted, early ? 1 : 0);
    EXPECT_EQ(restored.counters().rows_admitted, early ? 0 : shard->counters().rows_admitted);
  }
}

// A table too large for one step is written in many, while every row of it changes.
TEST_F(CheckpointTest, ALargeTableIsCutAtOneInstantToo) {
  rows_max_ = 1 << 16;
  Declaration model = Model();
  model.signature.tables[0].dim = 64;
  Shard shard(memory_, Options());
  shard.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(shard.Declare(DeclarationFor(shard, model), nullptr).ok());
  std::vector<uint64_t> ids;
  for (uint64_t id = 0; id < 10000; ++id) ids.push_back(id);
  int64_t begin = 0;
  const auto push = [&](size_t first, size_t count) {
    const std::vector<float> gradients(count * 64, 0.25f);
    PushRequest request{
        .key = {.begin = begin, .end = begin + 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{absl::MakeConstSpan(ids).subspan(first, count), gradients}, {}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ASSERT_EQ(*shard.Push(split.body(0).view(), nullptr), PushOutcome::kApplied);
    ++begin;
  };
  push(0, 9000);
  const std::string cut = shard.Export();
  StringSink file;
  CheckpointWriter writer(shard, {.version = 1});
  int steps = 0;
  do {
    if (steps == 3) push(0, 10000);  // Changes all rows and makes more.
    if (steps == 5) push(7, 5000);
    ++steps;
  } while (!*writer.Step(file));
  EXPECT_GT(steps, 6);
  Shard restored(memory_, Options());
  ASSERT_TRUE(Restore(restored, file.bytes()).ok());
  EXPECT_TRUE(restored.Export() == cut);
}

TEST_F(CheckpointTest, DamageAnywhereIsFound) {
  const auto shard = Ready(Options());
  ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = 0, .end = 32}}).ok());
  const std::string file = Written(*shard);
  for (size_t at = 0; at < file.size(); at += at < 100 ? 1 : 7) {
    std::string flipped = file;
    flipped[at] ^= static_cast<char>(1 << (at % 8));
    Shard restored(memory_, Options());
    ASSERT_FALSE(Restore(restored, flipped).ok()) << at;
  }
  for (size_t n = 0; n < file.size(); n += 17) {
    Shard restored(memory_, Options());
    ASSERT_TRUE(absl::IsDataLoss(Restore(restored, file.substr(0, n)))) << n;
  }
}

// Records whose checksums are right and whose contents are not, as of a bug elsewhere: an error, or
// another state, but nothing worse, also when training goes on from there.
TEST_F(CheckpointTest, RecordsThatLieDoNoHarm) {
  const RowsSpec rules[] = {{}, {.admit_count = 2}, {.ttl_steps = 2, .capacity = 50}};
  for (const RowsSpec& rule : rules) {
    row_rules_ = rule;
    optimizer_ = {.name = "adam", .weight_decay = 0.1};
    const auto shard = Ready(Options());
    for (int64_t begin = 0; begin < 128; begin += 32) {
      ASSERT_TRUE(Push(*shard, {.key = {.epoch = 0, .begin = begin, .end = begin + 32}}).ok());
    }
    std::vector<std::pair<RecordKind, std::string>> records;
    ASSERT_TRUE(ReadRecords("c", Written(*shard), [&](RecordKind kind, absl::string_view body) {
                  records.emplace_back(kind, std::string(body));
                  return absl::OkStatus();
                }).ok());
    Rng rng(6);
    for (int round = 0; round < 100; ++round) {
      Shard restored(memory_, Options());
      restored.SetView(1, {WorkerId(1)});
      CheckpointReader reader(restored, size_t{1} << 20);
      const size_t liar = 1 + rng.Below(records.size() - 1);  // Not the head.
      absl::Status status;
      for (size_t r = 0; r < records.size() && status.ok(); ++r) {
        std::string body = records[r].second;
        for (uint64_t n = r == liar ? 1 + rng.Below(3) : 0; n > 0 && !body.empty(); --n) {
          body[rng.Below(std::min<size_t>(body.size(), 400))] ^=
              static_cast<char>(1 << rng.Below(8));
        }
        if (r == liar && rng.Chance(0.2)) body.resize(rng.Below(body.size() + 1));
        status = reader.Add(records[r].first, body);
      }
      if (!status.ok() || !reader.Finish().ok()) continue;
      for (int64_t begin = 128; begin < 256; begin += 32) {
        (void)Push(restored, {.key = {.epoch = 0, .begin = begin, .end = begin + 32}});
      }
    }
  }
}

TEST_F(CheckpointTest, AnotherServersCheckpointIsRefused) {
  const auto shard = Ready(Options());
  Shard other(memory_, Options(0, 2));
  const absl::Status status = Restore(other, Written(*shard));
  EXPECT_THAT(std::string(status.message()),
              HasSubstr("the checkpoint of server 0 of 1, not of 0 of 2"));
}

// Whoever restores from the files of whomever: training goes on to the same bits.
TEST_F(CheckpointTest, AnyNumberOfServersGoesOnFromTheFilesOfAnyOther) {
  for (const auto& [before, after] :
       std::vector<std::pair<int64_t, int64_t>>{{1, 1}, {1, 3}, {2, 3}, {3, 2}, {5, 1}, {3, 7}}) {
    for (const char* name : {"adam", "dense_adam", "rowwise_adagrad", "ftrl"}) {
      optimizer_ = {.name = name};
      if (optimizer_.name != "ftrl") {
        optimizer_.weight_decay = 0.1;
        optimizer_.schedule = {.name = "cosine", .warmup = 64, .samples = 500};
      }
      dense_size_ = 20000;
      row_rules_ = {.admit_count = 2, .ttl_steps = 3};
      std::vector<std::unique_ptr<Shard>> old_servers, new_servers;
      const auto push = [&](std::vector<std::unique_ptr<Shard>>& servers, int64_t begin) {
        for (const auto& server : servers) {
          ASSERT_EQ(*Push(*server, {.key = {.epoch = 0, .begin = begin, .end = begin + 32}}),
                    PushOutcome::kApplied);
        }
      };
      for (int64_t s = 0; s < before; ++s) old_servers.push_back(Ready(Options(s, before)));
      for (int64_t begin = 0; begin < 320; begin += 32) push(old_servers, begin);
      std::vector<std::string> bytes;
      std::vector<CheckpointFile> files;
      for (const auto& server : old_servers) bytes.push_back(Written(*server));
      for (const std::string& file : bytes) files.push_back({"server.ckpt", file});
      for (int64_t s = 0; s < after; ++s) {
        new_servers.push_back(std::make_unique<Shard>(memory_, Options(s, after)));
        new_servers.back()->SetView(1, {WorkerId(1)});
        const absl::Status status = RestoreShard(*new_servers.back(), files);
        ASSERT_TRUE(status.ok()) << status;
        ASSERT_EQ(new_servers.back()->histories().size(), 1u);
      }
      for (int64_t begin = 320; begin < 640; begin += 32) {
        push(old_servers, begin);
        push(new_servers, begin);
      }
      ASSERT_EQ(Everything(old_servers), Everything(new_servers)) << before << " " << after << name;
    }
  }
}

TEST_F(CheckpointTest, AMissingFileIsNoticed) {
  std::vector<std::string> bytes;
  for (int64_t s = 0; s < 3; ++s) bytes.push_back(Written(*Ready(Options(s, 3))));
  Shard shard(memory_, Options());
  const absl::Status status =
      RestoreShard(shard, {{"server-0.ckpt", bytes[0]}, {"server-2.ckpt", bytes[2]}});
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_THAT(std::string(status.message()), HasSubstr("683 of the 1024 partitions"));
}

// ---- hostile bytes ----

// Requests with flipped bits or cut short never do worse than an error.
TEST_F(ShardTest, HostileRequestsDoNoHarm) {
  const auto shard = Ready(Options());
  Rng rng(4);
  PushSplit split = Batch({.key = {.epoch = 0, .begin = 0, .end = 32}});
  const std::string good(split.body(0).view());
  for (int round = 0; round < 3000; ++round) {
    std::string bad = good.substr(0, rng.Below(good.size() + 1));
    for (int flips = 0; flips < 3 && !bad.empty(); ++flips) {
      bad[rng.Below(std::min<size_t>(bad.size(), 96))] ^= static_cast<char>(1 << rng.Below(8));
    }
    Buffer reply;
    (void)shard->Push(bad, nullptr);
    (void)shard->Pull(bad, &reply);
    (void)shard->Declare(bad, nullptr);
  }
}

}  // namespace
}  // namespace rubato
