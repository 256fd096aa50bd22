// A log that is read ahead and applied beside its checks gives the same bytes, and the same words
// when it is damaged, as a plain loop over its records.
#include "rubato/adapters/posix/log_replay.h"

#include <gtest/gtest.h>
#include <pthread.h>

#include <filesystem>
#include <limits>
#include <memory>
#include <set>
#include <system_error>
#include <thread>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/log_file.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/bytes.h"
#include "rubato/base/rng.h"
#include "rubato/params/log_forecast.h"
#include "rubato/params/shard.h"

namespace rubato {
namespace {

constexpr LogReplayOptions kPlain = {.ahead_from_bytes = std::numeric_limits<int64_t>::max()};
constexpr LogReplayOptions kAhead = {.ahead_from_bytes = 0};
constexpr int64_t kDense = 3 * kDenseSliceFloats;
constexpr int64_t kPushes = 300;

struct Kind {
  const char* name;
  const char* optimizer;
  RowsSpec rows = {};
  WireFormat format = WireFormat::kFp32;
};

class LogReplayTest : public testing::TestWithParam<Kind> {
 protected:
  LogReplayTest() {
    for (int64_t s = 1; s <= 3; ++s) paths_.push_back(SegmentPath(folder_.path(), s));
  }

  std::unique_ptr<Shard> Fresh() {
    auto shard = std::make_unique<Shard>(memory_, ShardOptions{.rows_max = 1 << 16});
    shard->SetView(1, {WorkerId(1)});
    return shard;
  }

  // A third of the pushes in each segment, mostly of new ids, and some dense gradients.
  std::unique_ptr<Shard> Train(const Kind& kind) {
    Declaration model = TestModel(kDense, 4, kind.optimizer);
    model.signature.tables.resize(2);
    model.signature.tables[1].name = "wide";
    model.signature.tables[1].dim = 1;
    model.rows = kind.rows;
    auto shard = Fresh();
    Rng rng(11);
    std::unique_ptr<LogFile> log;
    for (int64_t n = 0; n < kPushes; ++n) {
      if (n % (kPushes / 3) == 0) {
        log = Begin(n / (kPushes / 3) + 1);
      }
      if (n == 0) {
        const std::vector<Interval> slices = DenseSlices(kDense, PartitionMap::Even(1), 0);
        RUBATO_CHECK_OK(shard->Declare(EncodeDeclaration(model, slices), log.get()));
      }
      const std::string body = PushOf(n, rng, kind.format);
      bodies_.push_back(body);
      const auto outcome = shard->Push(body, log.get());
      RUBATO_CHECK(outcome.ok() && *outcome == PushOutcome::kApplied);
    }
    return shard;
  }

  // Over a file that was longer, but for the first, which is new.
  std::unique_ptr<LogFile> Begin(int64_t segment) {
    const std::string& path = paths_[static_cast<size_t>(segment - 1)];
    if (segment == 1) return *LogFile::Create(path, segment);
    const std::string spare = folder_.File("spare");
    {
      const auto older = *LogFile::Create(spare, segment - 1);
      for (int n = 0; n < 10; ++n) {
        RUBATO_CHECK_OK(older->Append(RecordKind::kPush, std::string(400000, 'x')));
      }
    }
    return *LogFile::Over(spare, path, segment);
  }

  static std::string PushOf(int64_t n, Rng& rng, WireFormat format) {
    std::set<uint64_t> some;
    for (int i = 0; i < 100; ++i) some.insert(Mix(rng.Below(50 + 60 * static_cast<uint64_t>(n))));
    const std::vector<uint64_t> ids(some.begin(), some.end());
    std::vector<float> gradients(ids.size() * 4), dense(rng.Chance(0.1) ? kDense : 0);
    for (auto* values : {&gradients, &dense}) {
      for (float& g : *values) g = static_cast<float>(rng.Below(9)) - 4;
    }
    PushRequest request{
        .key = {.begin = n * 8, .end = n * 8 + 8}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients},
                      {ids, absl::MakeConstSpan(gradients).subspan(0, ids.size())}};
    request.dense = dense;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1), format);
    return std::string(split.body(0).view());
  }

  // Both ways; they must agree in all they do and say.
  absl::Status Replay(std::string* state, int64_t* pushes) {
    const auto plain = Fresh(), ahead = Fresh();
    int64_t plain_pushes = 0;
    const absl::Status expected = ReplayLog(paths_, *plain, &plain_pushes, kPlain);
    *pushes = 0;
    const absl::Status status = ReplayLog(paths_, *ahead, pushes, kAhead);
    EXPECT_EQ(status, expected);
    EXPECT_EQ(*pushes, plain_pushes);
    EXPECT_TRUE(ahead->Export() == plain->Export());
    *state = ahead->Export();
    return status;
  }

  const TestFolder folder_;
  std::vector<std::string> paths_, bodies_;
  SystemMemory memory_{/*huge_pages=*/false};
};

TEST_P(LogReplayTest, GivesTheShardAsItWas) {
  const auto live = Train(GetParam());
  std::string state;
  int64_t pushes = 0;
  const absl::Status status = Replay(&state, &pushes);
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(pushes, kPushes);
  EXPECT_TRUE(state == live->Export());
}

// Nobody who dies leaves a segment without its end, so neither one before the last nor the last may
// lack it.
TEST_P(LogReplayTest, DamageIsNamedAndSoIsAFileThatWasCutOff) {
  Train(GetParam());
  const auto file = MappedFile::Open(paths_[1]);
  const auto size = SkimRecords(file->bytes(), [](RecordKind, absl::string_view) {}).bytes;
  ASSERT_LT(size, file->bytes().size() / 2);
  std::string state;
  int64_t pushes = 0;
  for (const size_t bytes : {size, size - 20}) {
    std::filesystem::resize_file(paths_[1], bytes);
    const absl::Status cut = Replay(&state, &pushes);
    EXPECT_TRUE(absl::IsDataLoss(cut)) << cut;
    EXPECT_EQ(cut.message(),
              absl::StrCat(paths_[1], ": damaged at byte ", bytes, ": the file was cut off there"));
    EXPECT_EQ(pushes, kPushes * 2 / 3 - (bytes < size ? 1 : 0));
  }
  std::filesystem::resize_file(paths_[2], std::filesystem::file_size(paths_[2]) / 2);
  EXPECT_TRUE(absl::StrContains(Replay(&state, &pushes).message(), paths_[1])) << "the first";
  FlipByte(paths_[1], static_cast<int64_t>(size / 2));
  const absl::Status damaged = Replay(&state, &pushes);
  EXPECT_TRUE(absl::IsDataLoss(damaged)) << damaged;
  EXPECT_TRUE(absl::StrContains(damaged.message(), paths_[1])) << damaged;
  EXPECT_LT(pushes, kPushes * 2 / 3);
  EXPECT_GE(pushes, kPushes / 3);
}

TEST_P(LogReplayTest, APushThatIsThereTwiceIsNamed) {
  Train(GetParam());
  {
    const auto log = *LogFile::Create(paths_[1], 2);
    RUBATO_CHECK_OK(log->Append(RecordKind::kPush, bodies_[100]));
    RUBATO_CHECK_OK(log->Append(RecordKind::kPush, bodies_[7]));
    RUBATO_CHECK_OK(log->Append(RecordKind::kPush, bodies_[101]));
  }
  std::string state;
  int64_t pushes = 0;
  const absl::Status status = Replay(&state, &pushes);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), paths_[1] + ": record at byte ")) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), "applied twice")) << status;
  EXPECT_EQ(pushes, kPushes / 3 + 2);
}

// As if the segment with its gradients were gone: sound bytes that do not go on from those before.
TEST_F(LogReplayTest, ARoundThatIsNotThereIsNamed) {
  Declaration model = TestModel(kDense, 4, "adagrad");
  model.mode = PushMode::kSync;
  const auto log = *LogFile::Create(paths_[0], 1);
  const auto shard = Fresh();
  const std::vector<Interval> slices = DenseSlices(kDense, PartitionMap::Even(1), 0);
  ASSERT_TRUE(shard->Declare(EncodeDeclaration(model, slices), log.get()).ok());
  std::string rounds;
  ByteWriter(rounds).Put<int64_t>(2);
  ASSERT_TRUE(log->Append(RecordKind::kRounds, rounds).ok());
  paths_.resize(1);
  std::string state;
  int64_t pushes = 0;
  const absl::Status status = Replay(&state, &pushes);
  EXPECT_TRUE(absl::IsDataLoss(status)) << status;
  EXPECT_TRUE(absl::StrContains(status.message(), paths_[0] + ": record at byte ")) << status;
}

INSTANTIATE_TEST_SUITE_P(Kinds, LogReplayTest,
                         testing::Values(Kind{"adagrad", "adagrad"},
                                         Kind{"adam_halves", "adam", {}, WireFormat::kBf16},
                                         Kind{"counted", "sgd", {.admit_count = 3}},
                                         Kind{"by_chance", "momentum", {.admit_probability = 0.5}},
                                         Kind{"capacity", "adagrad", {.capacity = 700}},
                                         Kind{"ttl", "ftrl", {.ttl_steps = 9}}),
                         [](const auto& kind) { return std::string(kind.param.name); });

// No system has room for a stack of 2^47 bytes, so no thread can be started meanwhile.
class NoThreads {
 public:
  NoThreads() {
    pthread_attr_t wide;
    RUBATO_CHECK(pthread_getattr_default_np(&was_) == 0 && pthread_attr_init(&wide) == 0);
    RUBATO_CHECK(pthread_attr_setstacksize(&wide, size_t{1} << 47) == 0);
    RUBATO_CHECK(pthread_setattr_default_np(&wide) == 0);
    pthread_attr_destroy(&wide);
  }
  ~NoThreads() {
    pthread_setattr_default_np(&was_);
    pthread_attr_destroy(&was_);
  }

 private:
  pthread_attr_t was_;
};

TEST_F(LogReplayTest, ASystemWithoutThreadsReadsItInLine) {
  const auto live = Train({"", "adagrad"});
  const auto shard = Fresh();
  int64_t pushes = 0;
  absl::Status status;
  {
    const NoThreads none;
    EXPECT_THROW(std::thread([] {}), std::system_error);  // What the rest rests on.
    status = ReplayLog(paths_, *shard, &pushes, kAhead);
  }
  ASSERT_TRUE(status.ok()) << status;
  EXPECT_EQ(pushes, kPushes);
  EXPECT_TRUE(shard->Export() == live->Export());
}

// What is to come is known within a few percent, and asked for neither twice nor in vain.
TEST_F(LogReplayTest, AForecastCountsWhatIsNew) {
  const auto live = Train({"", "adagrad"});
  LogForecast all, rest;
  for (const std::string& path : paths_) {
    const auto file = MappedFile::Open(path);
    SkimRecords(file->bytes(), [&](RecordKind kind, absl::string_view body) {
      all.Add(kind, body);
      if (path != paths_[0]) rest.Add(kind, body);
    });
  }
  EXPECT_EQ(live->Expect(all).size(), 2u);  // Rows of two tables, whose ids are all there.
  for (const MemoryRange& range : live->Expect(all)) EXPECT_LT(range.bytes, 2u << 20);
  const auto shard = Fresh();
  int64_t pushes = 0;
  ASSERT_TRUE(ReplayLog({paths_[0]}, *shard, &pushes, kPlain).ok());
  const std::string before = shard->Export();
  const int64_t rows = shard->rows() / 2, news = live->rows() / 2 - rows;
  const std::vector<MemoryRange> memory = shard->Expect(rest);
  ASSERT_EQ(memory.size(), 4u);
  const double expected = static_cast<double>(memory[1].bytes) / (4 * 2 * sizeof(float));
  EXPECT_NEAR(expected / static_cast<double>(news), 1, 0.25) << expected << " of " << news;
  for (const MemoryRange& range : memory) Populate(range);
  EXPECT_TRUE(shard->Export() == before);
  LogForecast moved = rest;
  moved.Add(RecordKind::kOwn, "");
  EXPECT_TRUE(shard->Expect(moved).empty());
}

}  // namespace
}  // namespace rubato
