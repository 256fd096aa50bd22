// Damage of every kind to what a server reads from strangers and from its disk: streams of frames,
// push logs, checkpoints, exports, joints (manifests: roles/checkpoint_weights_test). Whatever the
// bytes, they are taken or refused; nothing is read out of bounds, nothing is allocated because a
// number says so, and what was taken can be used.
//
// Bytes are damaged raw, where checksums find it, and beneath the checksums, which are then made
// right again, so that every field meets hostile values. RUBATO_FUZZ_SECONDS=600 searches longer,
// RUBATO_FUZZ_SEED=7 elsewhere.
#include <gtest/gtest.h>
#include <sys/resource.h>

#include <cstdlib>
#include <cstring>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/time/clock.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/rng.h"
#include "rubato/net/buffer.h"
#include "rubato/net/frame.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/damage_testing.h"
#include "rubato/params/log_forecast.h"
#include "rubato/params/log_replica.h"
#include "rubato/params/shard.h"
#include "rubato/params/string_sink.h"
#include "rubato/params/weights.h"

namespace rubato {
namespace {

// Most of the time where the sanitizer looks on.
#if defined(__SANITIZE_ADDRESS__)
constexpr double kSeconds = 15;
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
constexpr double kSeconds = 15;
#else
constexpr double kSeconds = 2;
#endif
#else
constexpr double kSeconds = 2;
#endif

double FromEnvironment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  double value = 0;
  return text != nullptr && absl::SimpleAtod(text, &value) ? value : otherwise;
}

// The most memory the process has held, in bytes.
int64_t MostMemory() {
  rusage usage{};
  getrusage(RUSAGE_SELF, &usage);
  return int64_t{usage.ru_maxrss} << 10;
}

struct Record {
  RecordKind kind;
  std::string body;
};

// A file's records, to be harmed and put together again.
class Records : public RecordSink {
 public:
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    all.push_back({kind, std::string(body)});
    return absl::OkStatus();
  }
  std::string File() const {
    const FileHeaderBytes header = EncodeFileHeader();
    std::string bytes(header.data(), header.size());
    for (const Record& record : all) {
      const RecordHeaderBytes head = EncodeRecordHeader(record.kind, record.body);
      bytes.append(head.data(), head.size());
      bytes.append(record.body);
      bytes.resize(Padded(bytes.size()));
    }
    return bytes;
  }
  // As a segment of a log, over an older one of the same records and as many again.
  std::string Segment() const {
    StringSegment file;
    for (const int64_t segment : {6, 7}) {
      SegmentWriter writer(file, segment);
      EXPECT_TRUE(writer.Begin().ok());
      for (int n = segment == 6 ? 2 : 1; n > 0; --n) {
        for (const Record& record : all) EXPECT_TRUE(writer.Append(record.kind, record.body).ok());
      }
    }
    return file.bytes();
  }
  std::string Harmed(Damage& damage, bool is_segment = false) const {
    if (damage.rng.Chance(0.1)) {
      std::string bytes = is_segment ? Segment() : File();
      damage.Harm(&bytes, bytes);
      return bytes;
    }
    Records harmed = *this;
    Record& one = harmed.all[damage.rng.Below(all.size())];
    const Record& other = all[damage.rng.Below(all.size())];
    switch (damage.rng.Below(16)) {
      case 0:
        one.kind = other.kind;
        break;
      case 1:
        harmed.all.resize(damage.rng.Below(all.size()));
        break;
      case 2:
        harmed.all.push_back(other);
        break;
      default:
        damage.Harm(&one.body, other.body);
    }
    return is_segment ? harmed.Segment() : harmed.File();
  }

  std::vector<Record> all;
};

class FuzzTest : public testing::Test {
 protected:
  static constexpr int64_t kDense = 24;
  static constexpr uint64_t kRowsMax = 1 << 16;

  FuzzTest() {
    for (const PushMode mode : {PushMode::kAsync, PushMode::kSync, PushMode::kHybrid}) {
      samples_.push_back(SampleOf(mode));
    }
  }

  // What a server of each mode has on disk. In rounds, the last one's gradients are still staged.
  struct Sample {
    PushMode mode;
    Records log, checkpoint, delta, weights;
  };
  Sample SampleOf(PushMode mode) {
    Sample sample{.mode = mode};
    Shard shard(memory_, options_);
    shard.SetView(1, {WorkerId(1)});
    EXPECT_TRUE(shard.Declare(Declared(mode), &sample.log).ok());
    for (int64_t n = 0; n < 6; ++n) {
      EXPECT_EQ(*shard.Push(Aligned(PushOf(n)), &sample.log), PushOutcome::kApplied);
    }
    EXPECT_EQ(shard.rounds(), mode == PushMode::kAsync ? 0 : 2);
    {
      CheckpointWriter writer(shard, {.version = 1, .first_segment = 2});
      while (!*writer.Step(sample.checkpoint)) {
      }
      writer.Published();
    }
    for (int64_t n = 6; n < 12; ++n) {
      EXPECT_EQ(*shard.Push(Aligned(PushOf(n)), nullptr), PushOutcome::kApplied);
    }
    {
      CheckpointWriter writer(shard,
                              {.version = 2, .first_segment = 3, .base = 1, .base_segment = 2});
      while (!*writer.Step(sample.delta)) {
      }
    }
    const auto staged = std::count_if(
        sample.checkpoint.all.begin(), sample.checkpoint.all.end(),
        [](const Record& record) { return record.kind == RecordKind::kCheckpointStaged; });
    EXPECT_EQ(staged, mode == PushMode::kAsync ? 0 : 2);
    WeightsWriter weights(sample.weights);
    EXPECT_TRUE(shard.VisitWeights(weights).ok() && weights.Finish().ok());
    return sample;
  }
  const Sample& AnySample(Damage& damage) const {
    return samples_[damage.rng.Below(samples_.size())];
  }

  // Two tables, with rows that are counted first and may go, and one with columns in groups.
  static Declaration Model(PushMode mode) {
    Declaration model;
    model.mode = mode;
    model.signature.dense_size = kDense;
    model.signature.dense = {{.name = "top", .shape = {4, 6}, .size = kDense}};
    model.signature.tables.resize(2);
    model.signature.tables[0].name = "deep";
    model.signature.tables[0].dim = 4;
    model.signature.tables[0].rows = RowsSpec{.admit_count = 2, .ttl_steps = 4, .capacity = 30};
    model.signature.tables[1].name = "both";
    model.signature.tables[1].dim = 3;
    model.signature.tables[1].groups.resize(2);
    model.signature.tables[1].groups[0].dim = 1;
    model.signature.tables[1].groups[1].dim = 2;
    model.optimizer.name = "adagrad";  // Adam would spend the time on its table of corrections.
    model.optimizer.weight_decay = 0.01;
    model.dense.assign(kDense, 0.5f);
    return model;
  }
  static std::string Declared(PushMode mode) {
    return EncodeDeclaration(Model(mode), {{0, kDense}});
  }
  // Two batches make a round, and the first of the next says that it is whole.
  static std::string PushOf(int64_t n) {
    std::vector<uint64_t> ids;
    for (uint64_t i = 0; i < 20; ++i) ids.push_back(Mix((i * (n % 3 + 1)) % 40));
    std::sort(ids.begin(), ids.end());
    ids.erase(std::unique(ids.begin(), ids.end()), ids.end());
    const std::vector<float> deep(ids.size() * 4, 0.25f), both(ids.size() * 3, -0.5f),
        dense(kDense, 1.0f);
    PushRequest request;
    request.key = {.epoch = 0, .task = 0, .begin = n * 32, .end = n * 32 + 32};
    request.worker = WorkerId(1);
    request.view = 1;
    request.records = 32;
    request.round = request.rounds = n / 2;
    request.tables = {{ids, deep}, {ids, both}};
    request.dense = dense;
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    return std::string(split.body(0).view());
  }
  static std::string PullOf(int64_t rounds = 0) {
    const std::vector<uint64_t> ids = {1, 2, Mix(3)};
    std::vector<float> deep(ids.size() * 4), both(ids.size() * 3), dense(kDense);
    PullSplit split;
    split.Encode({.tables = {{ids, absl::MakeSpan(deep)}, {ids, absl::MakeSpan(both)}},
                  .dense = absl::MakeSpan(dense),
                  .rounds = rounds},
                 PartitionMap::Even(1));
    return std::string(split.body(0).view());
  }
  // As a file in memory or a frame's body lies: at a multiple of 8, with nothing behind it.
  absl::string_view Aligned(const std::string& bytes) {
    aligned_.reset(new uint64_t[(bytes.size() + 7) / 8]);
    std::memcpy(aligned_.get(), bytes.data(), bytes.size());
    return {reinterpret_cast<const char*>(aligned_.get()), bytes.size()};
  }

  // Runs `attempt`, which says whether its bytes were taken, until the time is over. Some of both
  // must happen, or the damage is too coarse to find anything.
  void Search(absl::FunctionRef<bool(Damage&)> attempt) {
    const auto seed = static_cast<uint64_t>(FromEnvironment("RUBATO_FUZZ_SEED", 1));
    const absl::Time end =
        absl::Now() + absl::Seconds(FromEnvironment("RUBATO_FUZZ_SECONDS", kSeconds));
    int64_t taken = 0, refused = 0;
    for (uint64_t n = 0; n < 50 || absl::Now() < end; ++n) {
      SCOPED_TRACE(absl::StrCat("attempt ", n));
      Damage damage(Mix(seed, n));
      ++(attempt(damage) ? taken : refused);
      if (HasFailure()) return;
    }
    RecordProperty("taken", static_cast<int>(taken));
    RecordProperty("refused", static_cast<int>(refused));
    EXPECT_GT(taken, 0);
    EXPECT_GT(refused, 0);
    EXPECT_LT(MostMemory(), int64_t{2} << 30);
  }

  // Whatever came of it, a shard answers.
  void Use(Shard& shard) {
    shard.Export();
    shard.SetView(1, {WorkerId(1)});
    if (!shard.declared()) return;
    Buffer reply;
    shard.Pull(Aligned(PullOf()), &reply).IgnoreError();
    shard.Push(Aligned(PushOf(100)), nullptr).IgnoreError();
    shard.Whole(shard.rounds() + 1).IgnoreError();
    shard.Export();
  }

  SystemMemory memory_{/*huge_pages=*/false};
  ShardOptions options_{.rows_max = kRowsMax};
  std::vector<Sample> samples_;
  std::unique_ptr<uint64_t[]> aligned_;
};

std::string FrameBytes(ParamsOp op, const std::string& body) {
  FrameHeader header;
  header.op = static_cast<uint16_t>(op);
  header.body_bytes = static_cast<uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  return bytes + body + std::string(Padded(body.size()) - body.size(), '\0');
}

// As the follower of a log does, but for the bytes.
bool Carried(absl::string_view body, ReplicaCopy* copy) {
  const absl::StatusOr<ReplicaOrder> order = DecodeReplicaOrder(body);
  if (!order.ok() || !copy->Check(/*line=*/1, *order).ok()) return false;
  copy->Done(*order);
  return true;
}

bool Handled(const Frame& frame, absl::Span<char> area, Shard& shard, ReplicaCopy& copy);

// As a server does whose client shares `area` with it.
bool HandledShared(absl::string_view body, absl::Span<char> area, Shard& shard, ReplicaCopy& copy) {
  const absl::StatusOr<SharedRequest> shared = DecodeShared(body);
  if (!shared.ok()) return false;
  const auto request = PlaceIn(area, shared->request);
  const auto reply = PlaceIn(area, shared->reply);
  if (!request.has_value() || !reply.has_value()) return false;
  Buffer read;
  read.Append(request->data(), request->size());
  std::fill(reply->begin(), reply->end(), 'x');
  return Handled({{.op = static_cast<uint16_t>(shared->op)}, read.view()}, {}, shard, copy);
}

// Whether a server would take it.
bool Handled(const Frame& frame, absl::Span<char> area, Shard& shard, ReplicaCopy& copy) {
  Buffer reply;
  switch (static_cast<ParamsOp>(frame.header.op)) {
    case ParamsOp::kHello:
      return DecodeHello(frame.body).ok();
    case ParamsOp::kDeclare:
      return shard.Declare(frame.body, nullptr).ok();
    case ParamsOp::kPull: {
      const bool begun = !shard.PullChanges(frame.body) || shard.BeforePull(frame.body).ok();
      return shard.Pull(frame.body, &reply).ok() && begun;
    }
    case ParamsOp::kPush:
      return shard.Push(frame.body, nullptr).ok();
    case ParamsOp::kArrive: {
      ByteReader reader(frame.body);
      const auto kind = static_cast<RecordKind>(reader.Get<uint64_t>());
      return !reader.ok() || shard.Arrive(kind, frame.body.substr(8), nullptr).ok();
    }
    case ParamsOp::kFollow:
      return DecodeFollow(frame.body).ok() || DecodeLogSizes(frame.body).ok();
    case ParamsOp::kReplicate:
    case ParamsOp::kReplicaRead:
      return Carried(frame.body, &copy);
    case ParamsOp::kShared:
      return HandledShared(frame.body, area, shard, copy);
    case ParamsOp::kInspect:
      break;
  }
  return true;
}

// A client that says anything at all, in pieces of any size.
TEST_F(FuzzTest, Frames) {
  Search([&](Damage& damage) {
    const std::vector<std::pair<ParamsOp, std::string>> talk = {
        {ParamsOp::kHello, EncodeHello({.job = "ctr"})},
        {ParamsOp::kDeclare, Declared(AnySample(damage).mode)},
        {ParamsOp::kPull, PullOf()},
        {ParamsOp::kPush, PushOf(0)},
        {ParamsOp::kPush, PushOf(1)},
        {ParamsOp::kPull, PullOf(/*rounds=*/1)},
        {ParamsOp::kPush, PushOf(2)},
        {ParamsOp::kPull, PullOf(/*rounds=*/1)},
        {ParamsOp::kShared, EncodeShared({.op = ParamsOp::kPush,
                                          .request = {0, PushOf(3).size()},
                                          .reply = {PushOf(3).size(), 100}})},
        {ParamsOp::kFollow, Encode(FollowRequest{.job = "ctr", .leader = 1, .incarnation = 1})},
        {ParamsOp::kFollow, Encode(LogSizes{{1, 100}, {2, 50}})},
        {ParamsOp::kReplicate,
         Encode(ReplicaOrder{
             .kind = ReplicaOrder::Kind::kAppend, .segment = 1, .offset = 0, .bytes = 3}) +
             "log"}};
    std::string stream;
    const size_t harmed = damage.rng.Below(talk.size() + 1);
    for (size_t i = 0; i < talk.size(); ++i) {
      std::string body = talk[i].second;
      if (i == harmed) damage.Harm(&body, talk[damage.rng.Below(talk.size())].second);
      stream += FrameBytes(talk[i].first, body);
    }
    if (harmed == talk.size()) damage.Harm(&stream, stream);

    Shard shard(memory_, options_);
    shard.SetView(1, {WorkerId(1)});
    ReplicaCopy copy;
    EXPECT_TRUE(copy.Follow(/*incarnation=*/1, /*line=*/1).ok());
    const std::string pushed = PushOf(3);
    std::vector<char> area(pushed.begin(), pushed.end());
    area.resize(area.size() + 100);
    area.shrink_to_fit();  // So that a step beyond it is one into nowhere.
    FrameParser parser;
    bool all_taken = true;
    for (absl::string_view rest = stream; !rest.empty();) {
      const absl::Span<char> space = parser.Space();
      EXPECT_FALSE(space.empty());
      const size_t some = std::min({space.size(), rest.size(), 1 + damage.rng.Below(4096)});
      std::memcpy(space.data(), rest.data(), some);
      rest.remove_prefix(some);
      parser.Filled(some);
      while (true) {
        const auto frame = parser.Next();
        if (!frame.ok()) return false;  // The connection is closed.
        if (!frame->has_value()) break;
        all_taken &= Handled(**frame, absl::MakeSpan(area), shard, copy);
      }
    }
    Use(shard);
    return all_taken;
  });
}

// A server that answers anything at all.
TEST_F(FuzzTest, Replies) {
  Shard shard(memory_, options_);
  shard.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(shard.Declare(Declared(PushMode::kAsync), nullptr).ok());
  Buffer reply;
  ASSERT_TRUE(shard.Pull(Aligned(PullOf()), &reply).ok());
  const std::string sound(reply.view());
  const std::vector<uint64_t> ids = {1, 2, Mix(3)};
  std::vector<float> deep(ids.size() * 4), both(ids.size() * 3), dense(kDense);
  PullSplit split;
  split.Encode({.tables = {{ids, absl::MakeSpan(deep)}, {ids, absl::MakeSpan(both)}},
                .dense = absl::MakeSpan(dense)},
               PartitionMap::Even(1));
  Search([&](Damage& damage) {
    std::string bytes = sound;
    damage.Harm(&bytes, sound);
    return split.Scatter(0, Aligned(bytes)).ok();
  });
}

TEST_F(FuzzTest, PushLogs) {
  Search([&](Damage& damage) {
    Shard shard(memory_, options_);
    const bool is_segment = damage.rng.Chance(0.5);
    const absl::string_view log = Aligned(AnySample(damage).log.Harmed(damage, is_segment));
    LogForecast forecast;
    SkimRecords(log, [&](RecordKind kind, absl::string_view body) { forecast.Add(kind, body); });
    bool expected = false;
    const auto read = ReadRecords("push.log", log, [&](RecordKind kind, absl::string_view body) {
      if (shard.declared() && !std::exchange(expected, true)) (void)shard.Expect(forecast);
      return shard.Replay(kind, body);
    });
    Use(shard);
    return read.ok() && !read->torn;
  });
}

// What is taken as a checkpoint can be written as one again, and comes back the same.
TEST_F(FuzzTest, Checkpoints) {
  Search([&](Damage& damage) {
    const auto restore = [&](Shard& shard, const std::string& bytes) {
      CheckpointReader reader(shard, bytes.size());
      const auto read = ReadRecords(
          "server.ckpt", Aligned(bytes),
          [&](RecordKind kind, absl::string_view body) { return reader.Add(kind, body); });
      return read.ok() && reader.Finish().ok();
    };
    Shard shard(memory_, options_);
    if (!restore(shard, AnySample(damage).checkpoint.Harmed(damage))) return false;
    Records again;
    {
      CheckpointWriter writer(shard, {.version = 2});
      while (!*writer.Step(again)) {
      }
    }
    Shard other(memory_, options_);
    EXPECT_TRUE(restore(other, again.File()));
    EXPECT_EQ(shard.Export(), other.Export());
    Use(shard);
    return true;
  });
}

// One of two links is harmed; the other is as it was written.
TEST_F(FuzzTest, Chains) {
  Search([&](Damage& damage) {
    const Sample& sample = AnySample(damage);
    const bool first = damage.rng.Chance(0.3);
    const std::string full = first ? sample.checkpoint.Harmed(damage) : sample.checkpoint.File();
    const std::string delta = first ? sample.delta.File() : sample.delta.Harmed(damage);
    Shard shard(memory_, options_), foreign(memory_, options_);
    const absl::Status taken = RestoreChain(shard, {{"1", full}, {"2", delta}});
    RestoreShard(foreign, {{"2", delta}, {"1", full}}).IgnoreError();
    if (!taken.ok()) return false;
    Records again;
    {
      CheckpointWriter writer(shard, {.version = 3});
      while (!*writer.Step(again)) {
      }
    }
    Shard other(memory_, options_);
    EXPECT_TRUE(RestoreChain(other, {{"3", again.File()}}).ok());
    EXPECT_EQ(shard.Export(), other.Export());
    Use(shard);
    return true;
  });
}

// Whatever is taken is what would be written for it, with the checksum or without.
TEST_F(FuzzTest, Joints) {
  const std::string one = EncodeJoints({{3, 120}, {17, 4096}, {int64_t{1} << 40, 0}});
  const std::string other = EncodeJoints({{4, 64}});
  Search([&](Damage& damage) {
    std::string text = one;
    damage.Harm(&text, other);
    if (damage.rng.Chance(0.5)) {  // Beneath the checksum.
      std::string lines;
      (void)ReadSealedLines(damage.rng.Chance(0.5) ? one : other, &lines);
      damage.Harm(&lines, other);
      text = SealedLines(lines);
    }
    const absl::StatusOr<LogSizes> joints = DecodeJoints(text);
    if (!joints.ok()) return false;
    const std::string again = EncodeJoints(*joints);
    EXPECT_TRUE(absl::EndsWith(again, text)) << text;
    return true;
  });
}

TEST_F(FuzzTest, Exports) {
  Search([&](Damage& damage) {
    FrozenWeights weights;
    return ReadWeights("weights", Aligned(AnySample(damage).weights.Harmed(damage)), weights)
               .ok() &&
           weights.Finish().ok() && weights.rows() >= 0;
  });
}

}  // namespace
}  // namespace rubato
