// How much of a checkpoint is done at a time: a push waits for a step at most, so what bounds its
// wait, on any machine, is what a step may copy.
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/string_sink.h"
#include "rubato/params/wire.h"

namespace {

// The most bytes that were asked for at once, and all of them, while somebody looks.
bool looking = false;
size_t most_bytes = 0, all_bytes = 0;

void* Allocate(size_t bytes) {
  if (looking) most_bytes = std::max(most_bytes, bytes);
  if (looking) all_bytes += bytes;
  void* memory = malloc(bytes);
  if (memory == nullptr) abort();
  return memory;
}

}  // namespace

void* operator new(size_t bytes) { return Allocate(bytes); }
void* operator new[](size_t bytes) { return Allocate(bytes); }
void operator delete(void* memory) noexcept { free(memory); }
void operator delete[](void* memory) noexcept { free(memory); }
void operator delete(void* memory, size_t) noexcept { free(memory); }
void operator delete[](void* memory, size_t) noexcept { free(memory); }

namespace rubato {
namespace {

constexpr uint64_t kIds = 200000;
constexpr size_t kStepBytesMax = size_t{1} << 19;  // Some hundred microseconds of copying.

// What is asked for in the life of this.
class Look {
 public:
  Look() { looking = true, most_bytes = all_bytes = 0; }
  ~Look() { looking = false; }
};

// Counts what one step writes.
class CountingSink : public RecordSink {
 public:
  absl::Status Append(RecordKind, absl::string_view body) override {
    bytes_ += body.size();
    return absl::OkStatus();
  }
  size_t TakeBytes() { return std::exchange(bytes_, 0); }

 private:
  size_t bytes_ = 0;
};

struct Case {
  std::string name;
  int64_t dim = 1;
  RowsSpec rows;
  friend void PrintTo(const Case& c, std::ostream* out) { *out << c.name; }
};

class CheckpointStepsTest : public testing::TestWithParam<Case> {
 protected:
  CheckpointStepsTest() : shard_(memory_, {.rows_max = 1 << 19}) {
    Declaration model;
    for (const char* name : {"one", "other"}) {
      auto& table = model.signature.tables.emplace_back();
      table.name = name;
      table.dim = GetParam().dim;
    }
    model.optimizer.name = "adagrad";
    model.rows = GetParam().rows;
    RUBATO_CHECK_OK(shard_.Declare(EncodeDeclaration(model, {}), nullptr));
    shard_.SetView(1, {WorkerId(1)});
  }
  void PushAll() { Push(0, kIds); }
  void Push(uint64_t begin, uint64_t end) {
    std::vector<uint64_t> ids;
    for (uint64_t id = begin; id < end; ++id) ids.push_back(Mix(id));
    const std::vector<float> gradients(ids.size() * static_cast<size_t>(GetParam().dim), 0.25f);
    PushRequest request{
        .key = {.begin = pushes_, .end = pushes_ + 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}, {ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ASSERT_TRUE(shard_.Push(split.body(0).view(), nullptr).ok());
    ++pushes_;
  }
  // The most bytes of any step, and all of them together. A push comes early on that changes
  // everything, so that nearly all rows are set aside at once.
  std::pair<size_t, size_t> Write(const CheckpointName& name) {
    std::optional<CheckpointWriter> cut;
    {
      const Look look;
      cut.emplace(shard_, name);
      EXPECT_LE(all_bytes, kStepBytesMax) << "at the cut";
    }
    CheckpointWriter& writer = *cut;
    CountingSink sink;
    size_t most = 0, all = 0;
    int steps = 0;
    for (bool last = false; !last;) {
      last = *writer.Step(sink);
      if (++steps == 4) PushAll();
      const size_t bytes = sink.TakeBytes();
      most = std::max(most, bytes);
      all += bytes;
    }
    writer.Published();
    return {most, all};
  }

  SystemMemory memory_{/*huge_pages=*/false};
  Shard shard_;
  int64_t pushes_ = 0;
};

TEST_P(CheckpointStepsTest, NoStepCopiesMoreThanAPushCanWaitFor) {
  PushAll();
  const auto [full_most, full_all] = Write({.version = 1, .first_segment = 1});
  EXPECT_GT(full_all, kStepBytesMax) << "too small to tell";
  EXPECT_LE(full_most, kStepBytesMax) << "of " << full_all;
  const auto [delta_most, delta_all] =
      Write({.version = 2, .first_segment = 2, .base = 1, .base_segment = 1});
  EXPECT_GT(delta_all, kStepBytesMax) << "too small to tell";
  EXPECT_LE(delta_most, kStepBytesMax) << "of " << delta_all;
}

// Pushes that outrun the disk have their rows set aside. Whatever grows meanwhile, no push waits
// until all of it is copied to where there is more room.
TEST_P(CheckpointStepsTest, NothingThatGrowsBesideItIsCopiedAsAWhole) {
  PushAll();
  Write({.version = 1, .first_segment = 1});
  for (const int64_t base : {1, 0}) {
    const Look look;
    CheckpointWriter writer(
        shard_,
        {.version = 2 + base, .first_segment = 2 + base, .base = base, .base_segment = base});
    CountingSink sink;
    for (uint64_t id = 0; id < kIds; id += 1000) Push(id, id + 1000);
    while (!*writer.Step(sink)) {
    }
    writer.Close();
    EXPECT_GT(sink.TakeBytes(), 3 * kStepBytesMax) << "too small to tell";
    EXPECT_LE(most_bytes, kStepBytesMax) << (base > 0 ? "delta" : "full");
  }
}

// Memory may be slow: a step that has been at it for long enough stops after a few rows, and the
// next goes on from there, whatever moved in between.
TEST_P(CheckpointStepsTest, AStepStopsWhenItIsTold) {
  constexpr uint64_t kSome = 20000;
  Push(0, kSome);
  std::vector<std::string> files;
  for (const int64_t version : {1, 2}) {
    const std::string at_the_cut = shard_.Export();
    CheckpointWriter writer(shard_, {.version = version,
                                     .first_segment = version,
                                     .base = version - 1,
                                     .base_segment = version - 1});
    StringSink file;
    size_t most = 0, ids = 0;
    int steps = 0;
    for (bool last = false; !last; ++steps) {
      const size_t before = file.bytes().size();
      last = *writer.Step(file, [] { return true; });
      if (ids == 0 && steps > 4) most = std::max(most, file.bytes().size() - before);
      if (version == 2 && steps % 30 == 29 && ids < kSome) Push(ids, ids + 500), ids += 500;
    }
    writer.Published();
    // Ids that are only counted lie in the index alone, one after the other.
    if (GetParam().rows.admit_count <= 1) {
      EXPECT_GT(steps, 300);
      EXPECT_LE(most, size_t{32} << 8) << "version " << version;
    }
    files.push_back(file.bytes());
    std::vector<CheckpointFile> chain;
    for (const std::string& bytes : files) chain.push_back({"file", bytes});
    Shard restored(memory_, {.rows_max = 1 << 19});
    const absl::Status status = RestoreChain(restored, chain);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(restored.Export() == at_the_cut) << "version " << version;
    Push(kSome / 4, kSome / 2);
  }
}

INSTANTIATE_TEST_SUITE_P(Tables, CheckpointStepsTest,
                         testing::Values(Case{"Deep", 16, {}}, Case{"Wide", 1, {}},
                                         // Ids that are only counted, and have no row yet.
                                         Case{"Counted", 1, {.admit_count = 10}}),
                         [](const auto& test) { return test.param.name; });

// One of the records that hold dense weights is missing, or there twice: damage.
void ExpectDamageIfARecordIsNotThereOnce(Memory& memory, const std::string& bytes) {
  std::vector<std::pair<RecordKind, std::string>> records;
  RUBATO_CHECK_OK(ReadRecords("file", bytes, [&](RecordKind kind, absl::string_view body) {
                    records.emplace_back(kind, body);
                    return absl::OkStatus();
                  }).status());
  for (const size_t times : {0, 2}) {
    StringSink file;
    for (size_t i = 0; i < records.size(); ++i) {
      for (size_t n = 0; n < (i == 3 ? times : 1); ++n) {
        RUBATO_CHECK_OK(file.Append(records[i].first, records[i].second));
      }
    }
    Shard restored(memory, {.rows_max = 1 << 10});
    const absl::Status status = RestoreChain(restored, {{"file", file.bytes()}});
    EXPECT_TRUE(absl::IsDataLoss(status)) << times << ": " << status;
  }
}

// Dense weights of eight megabytes, and as much state, all of which move with every push: those of
// the cut are written, a step at a time, whatever moved when.
TEST(CheckpointDenseTest, WeightsAreThoseOfTheCutHoweverTheyMoveMeanwhile) {
  constexpr int64_t kDense = 2'000'001;
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.rows_max = 1 << 10});
  Declaration model;
  model.signature.dense_size = kDense;
  model.optimizer.name = "adagrad";
  model.dense.assign(kDense, 0.5f);
  const std::vector<Interval> slices = DenseSlices(kDense, PartitionMap::Even(1), 0);
  RUBATO_CHECK_OK(shard.Declare(EncodeDeclaration(model, slices), nullptr));
  shard.SetView(1, {WorkerId(1)});
  int64_t pushes = 0;
  const auto push = [&] {
    std::vector<float> gradient(kDense);
    for (size_t i = 0; i < gradient.size(); ++i) {
      gradient[i] = static_cast<float>(Mix(i + static_cast<uint64_t>(pushes)) % 9) - 4;
    }
    PushRequest request{
        .key = {.begin = pushes, .end = pushes + 1}, .worker = WorkerId(1), .view = 1};
    request.dense = gradient;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    ++pushes;
    ASSERT_TRUE(shard.Push(split.body(0).view(), nullptr).ok());
  };
  push();
  std::vector<std::string> files;
  for (const int64_t version : {1, 2}) {
    const std::string at_the_cut = shard.Export();
    // Where they are set aside is there beforehand; for the second, half of it.
    const auto all = CheckpointWriter::RoomFor(shard);
    EXPECT_EQ(all, 2 * static_cast<size_t>(kDense));
    const size_t room = all / static_cast<size_t>(version);
    CheckpointWriter writer(shard,
                            {.version = version,
                             .first_segment = version,
                             .base = version - 1,
                             .base_segment = version - 1},
                            CheckpointWriter::Room(room));
    StringSink file;
    int steps = 0;
    for (bool last = false; !last; ++steps) {
      const size_t before = file.bytes().size();
      last = *writer.Step(file, [&] { return steps % 4 == 0; });
      EXPECT_LE(file.bytes().size() - before, kStepBytesMax);
      if (steps % 5 == 3) push();
    }
    EXPECT_GT(steps, 10);
    EXPECT_LE(writer.room_used(), room);
    EXPECT_GT(writer.room_used(), version == 1 ? all * 3 / 4 : room * 3 / 4);
    writer.Published();
    files.push_back(file.bytes());
    std::vector<CheckpointFile> chain;
    for (const std::string& bytes : files) chain.push_back({"file", bytes});
    Shard restored(memory, {.rows_max = 1 << 10});
    const absl::Status status = RestoreChain(restored, chain);
    ASSERT_TRUE(status.ok()) << status;
    EXPECT_TRUE(restored.Export() == at_the_cut) << version;
  }
  ExpectDamageIfARecordIsNotThereOnce(memory, files[0]);
}

// Makes what is still to be made when all else is written, as a slow disk might.
class SlowSink : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    return TakeLater(kind, [body = std::string(body)] { return body; });
  }
  absl::Status TakeLater(RecordKind kind, std::function<std::string()> body) override {
    records_.emplace_back(kind, std::move(body));
    return absl::OkStatus();
  }
  std::string Write() const {
    StringSink file;
    for (const auto& [kind, body] : records_) RUBATO_CHECK_OK(file.Append(kind, body()));
    return file.bytes();
  }

 private:
  std::vector<std::pair<RecordKind, std::function<std::string()>>> records_;
};

// A shard in mode sync, with many gradients of some megabytes that wait for their rounds.
class CheckpointRoundsTest : public testing::Test {
 protected:
  static constexpr uint64_t kIdsOfOne = 20000;
  static constexpr int64_t kDense = 100'000;

  CheckpointRoundsTest() : shard_(memory_, {.rows_max = 1 << 18}) {
    Declaration model;
    model.mode = PushMode::kSync;
    model.tolerance = 4;
    model.signature.dense_size = kDense;
    auto& table = model.signature.tables.emplace_back();
    table.name = "table";
    table.dim = 16;
    model.optimizer.name = "adagrad";
    model.dense.assign(kDense, 0.5f);
    const std::vector<Interval> slices = DenseSlices(kDense, PartitionMap::Even(1), 0);
    RUBATO_CHECK_OK(shard_.Declare(EncodeDeclaration(model, slices), nullptr));
    shard_.SetView(1, {WorkerId(1)});
  }
  // One more batch of a round, none of which has moved anything yet.
  void Push(int64_t round) {
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kIdsOfOne; ++id) ids.push_back(Mix(id + kIdsOfOne / 2 * pushes_));
    const std::vector<float> gradients(16 * kIdsOfOne, 0.25f), dense(kDense, 0.125f);
    const auto begin = static_cast<int64_t>(pushes_++);
    PushRequest request{.key = {.begin = begin, .end = begin + 1}, .worker = WorkerId(1)};
    request.view = 1;
    request.records = 1;
    request.round = round;
    request.dense = dense;
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    const auto outcome = shard_.Push(split.body(0).view(), nullptr);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    ASSERT_EQ(*outcome, PushOutcome::kApplied);
  }

  SystemMemory memory_{/*huge_pages=*/false};
  Shard shard_;
  uint64_t pushes_ = 0;
};

// However many gradients wait, and however large they are: neither the cut nor a step copies them.
// They are written as of the cut, though their rounds move the weights meanwhile.
TEST_F(CheckpointRoundsTest, GradientsThatWaitAreEncodedWhereNobodyWaits) {
  for (int64_t i = 0; i < 8; ++i) Push(/*round=*/i / 4);
  const std::string at_the_cut = shard_.Export();
  ASSERT_GT(at_the_cut.size(), 8 * kStepBytesMax) << "too small to tell";
  std::optional<CheckpointWriter> writer;
  {
    const Look look;
    writer.emplace(shard_, CheckpointName{.version = 1, .first_segment = 1});
    EXPECT_LE(all_bytes, kStepBytesMax) << "at the cut";
  }
  SlowSink sink;
  int steps = 0;
  for (bool last = false; !last; ++steps) {
    {
      const Look look;
      last = *writer->Step(sink);
      EXPECT_LE(all_bytes, 2 * kStepBytesMax) << "step " << steps;
    }
    if (steps == 3) Push(/*round=*/2);
    if (steps == 5) RUBATO_CHECK_OK(shard_.Whole(2));
  }
  EXPECT_GT(steps, 8);
  writer->Published();
  const std::string file = sink.Write();
  Shard restored(memory_, {.rows_max = 1 << 18});
  const absl::Status status = RestoreChain(restored, {{"file", file}});
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_TRUE(restored.Export() == at_the_cut);
}

}  // namespace
}  // namespace rubato
