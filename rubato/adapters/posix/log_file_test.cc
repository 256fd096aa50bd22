// Segments that are written over: which files there are, how many, and that a server which uses
// them again and again comes back from them with exactly what it was sent.
#include "rubato/adapters/posix/log_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/stat.h>

#include <csignal>
#include <filesystem>

#include "absl/strings/match.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/base/rng.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

uint64_t InodeOf(const std::string& path) {
  struct stat stat {};
  RUBATO_CHECK(::stat(path.c_str(), &stat) == 0);
  return stat.st_ino;
}

class LogFileTest : public testing::Test {
 protected:
  std::string Path(int64_t segment) const { return SegmentPath(folder_.path(), segment); }

  void Write(LogFile& file, int64_t bytes, char c) {
    for (; bytes > 0; bytes -= 1024) {
      RUBATO_CHECK_OK(file.Append(RecordKind::kPush, std::string(992, c)));
    }
  }
  void Make(int64_t segment, int64_t bytes, char c = 'x') {
    const auto file = LogFile::Create(Path(segment), segment);
    RUBATO_CHECK_OK(file.status());
    Write(**file, bytes, c);
  }
  std::vector<std::string> Read(int64_t segment) {
    std::vector<std::string> bodies;
    const auto file = MappedFile::Open(Path(segment));
    RUBATO_CHECK_OK(file.status());
    RUBATO_CHECK_OK(
        ReadRecords(Path(segment), file->bytes(), [&](RecordKind, absl::string_view body) {
          bodies.emplace_back(body);
          return absl::OkStatus();
        }).status());
    return bodies;
  }
  std::vector<std::string> Files() const { return *ListDirectory(folder_.path()); }

  const TestFolder folder_;
};

TEST_F(LogFileTest, ASpareBecomesASegmentWithNothingOfItsOwn) {
  Make(1, 50 << 10);
  const uint64_t inode = InodeOf(Path(1));
  LogSpares spares(folder_.path(), 1 << 20);
  EXPECT_EQ(spares.Take(2), nullptr);
  spares.Keep({1});
  EXPECT_THAT(Files(), ElementsAre("spare-000001.log"));
  const std::unique_ptr<LogFile> file = spares.Take(2);
  ASSERT_NE(file, nullptr);
  EXPECT_THAT(Files(), ElementsAre("push-000002.log"));
  EXPECT_EQ(InodeOf(Path(2)), inode);
  EXPECT_THAT(Read(2), IsEmpty());
  Write(*file, 3 << 10, 'n');
  EXPECT_EQ(Read(2), std::vector<std::string>(3, std::string(992, 'n')));
  EXPECT_LT(file->bytes(), 4 << 10);
  EXPECT_GT(std::filesystem::file_size(Path(2)), 50u << 10);
  EXPECT_EQ(spares.Take(3), nullptr);
}

// Two at most, the longest; one that is too long is cut. A limit of none keeps none.
TEST_F(LogFileTest, SparesAreFewAndShort) {
  constexpr int64_t kMax = 100 << 10;
  for (const auto& [segment, bytes] : {std::pair{1, 30}, {2, 10}, {3, 40}, {4, 20}}) {
    Make(segment, bytes << 10);
  }
  LogSpares spares(folder_.path(), kMax);
  spares.Keep({1, 2, 3, 4});
  EXPECT_THAT(Files(), ElementsAre("spare-000001.log", "spare-000003.log"));
  LogSpares next_life(folder_.path(), kMax);
  ASSERT_TRUE(next_life.Open().ok());
  EXPECT_EQ(next_life.bytes(), spares.bytes());
  Make(5, 300 << 10);
  next_life.Keep({5});
  EXPECT_THAT(Files(), ElementsAre("spare-000005.log"));
  EXPECT_EQ(next_life.bytes(), kMax);
  EXPECT_EQ(std::filesystem::file_size(folder_.File("spare-000005.log")), size_t{kMax});
  const auto file = next_life.Take(6);
  Write(*file, 200 << 10, 'n');  // Beyond its own end it grows as any file does.
  EXPECT_EQ(Read(6).size(), 200u);
  EXPECT_FALSE(next_life.Clear());
  next_life.Keep({6});
  EXPECT_TRUE(next_life.Clear());
  EXPECT_THAT(Files(), IsEmpty());
  LogSpares none(folder_.path(), 0);
  Make(7, 1 << 10);
  none.Keep({7, 8});
  EXPECT_THAT(Files(), IsEmpty());
}

// What such a file holds might be records of the very segment that is to come.
TEST_F(LogFileTest, OnlyAnOlderSegmentIsWrittenOver) {
  LogSpares spares(folder_.path(), 1 << 20);
  Make(5, 10 << 10);
  spares.Keep({5});
  EXPECT_EQ(spares.Take(5), nullptr);
  EXPECT_THAT(Files(), IsEmpty());
  // A death after the header was written and before the name was given.
  Make(6, 10 << 10);
  spares.Keep({6});
  ASSERT_TRUE(LogFile::Over(folder_.File("spare-000006.log"), folder_.File("elsewhere"), 7).ok());
  std::filesystem::rename(folder_.File("elsewhere"), folder_.File("spare-000006.log"));
  EXPECT_EQ(spares.Take(7), nullptr);
  EXPECT_THAT(Files(), IsEmpty());
  // One whose header is damaged.
  Make(8, 10 << 10);
  FlipByte(Path(8), 17);
  spares.Keep({8});
  EXPECT_EQ(spares.Take(9), nullptr);
  // One of the format before.
  {
    const auto old = RecordFile::Create(Path(10));
    RUBATO_CHECK_OK((*old)->Append(RecordKind::kPush, std::string(5000, 'o')));
  }
  spares.Keep({10});
  EXPECT_NE(spares.Take(11), nullptr);
  EXPECT_THAT(Read(11), IsEmpty());
}

// No file may grow past so many bytes while this lives; the signal that tells so is not listened
// to.
class FullDisk {
 public:
  explicit FullDisk(uint64_t bytes) {
    RUBATO_CHECK(getrlimit(RLIMIT_FSIZE, &was_) == 0);
    const rlimit small = {.rlim_cur = bytes, .rlim_max = was_.rlim_max};
    RUBATO_CHECK(setrlimit(RLIMIT_FSIZE, &small) == 0);
  }
  ~FullDisk() {
    RUBATO_CHECK(setrlimit(RLIMIT_FSIZE, &was_) == 0);
    std::signal(SIGXFSZ, heard_);
  }

 private:
  void (*heard_)(int) = std::signal(SIGXFSZ, SIG_IGN);
  rlimit was_{};
};

// Under its name a segment is whole, if empty. One of no bytes, or half a header, as a death or a
// full disk in between would leave it, would be damage to the next life and missing in a copy.
TEST_F(LogFileTest, ASegmentHasItsNameAfterItsHeader) {
  for (const uint64_t bytes : {0, 16, 100}) {
    const FullDisk full(bytes);
    EXPECT_TRUE(absl::IsResourceExhausted(LogFile::Create(Path(3), 3).status())) << bytes;
    EXPECT_TRUE(ListSegments(folder_.path())->empty()) << bytes;
  }
  ASSERT_TRUE(LogFile::Create(Path(3), 3).ok());  // Over what was left.
  EXPECT_THAT(Files(), ElementsAre("push-000003.log"));
  EXPECT_THAT(Read(3), IsEmpty());
}

// One that is made ahead of its turn is no segment before, and leaves nothing if its turn never
// comes.
TEST_F(LogFileTest, ASegmentMadeAheadGetsItsNameWhenItsTurnComes) {
  LogSpares spares(folder_.path(), 1 << 20);
  RUBATO_CHECK_OK(spares.Ahead(2).status());
  EXPECT_THAT(Files(), IsEmpty());
  auto fresh = spares.Ahead(2);
  ASSERT_TRUE(fresh.ok()) << fresh.status();
  EXPECT_TRUE(ListSegments(folder_.path())->empty());
  ASSERT_TRUE((*fresh)->Place().ok());
  EXPECT_THAT(Files(), ElementsAre("push-000002.log"));
  Write(**fresh, 3 << 10, 'n');
  EXPECT_EQ(Read(2).size(), 3u);
  // Over a spare.
  Make(1, 50 << 10);
  spares.Keep({1});
  auto over = spares.Ahead(3);
  ASSERT_TRUE(over.ok()) << over.status();
  EXPECT_THAT(Files(), ElementsAre("push-000002.log", "spare-000001.log"));
  ASSERT_TRUE((*over)->Place().ok());
  EXPECT_THAT(Files(), ElementsAre("push-000002.log", "push-000003.log"));
  EXPECT_THAT(Read(3), IsEmpty());
}

// ---- a store ----

constexpr int64_t kDim = 4;

class StoreTest : public testing::Test {
 protected:
  StoreTest() {
    options_ = TestServerOptions(folder_.path(), 0, 1);
    options_.spare_log_bytes = 1 << 20;
  }
  // The next life: as a SIGKILL leaves it, since nothing is written when a store goes.
  absl::Status Live() {
    shard_.reset();
    store_.reset();
    RUBATO_ASSIGN_OR_RETURN(store_, ParamsStore::Open(options_));
    RUBATO_ASSIGN_OR_RETURN(shard_, store_->Recover(memory_));
    shard_->SetView(1, {WorkerId(1)});
    return absl::OkStatus();
  }
  static std::string Declared() {
    const Declaration model = TestModel(0, kDim, "adagrad");
    return EncodeDeclaration(model, DenseSlices(0, PartitionMap::Even(1), 0));
  }
  std::string PushOf(int64_t n) {
    Rng rng(static_cast<uint64_t>(n));
    std::vector<uint64_t> ids;
    const uint64_t many = 1 + rng.Below(rng.Chance(0.2) ? 400 : 20);
    for (uint64_t i = 0; i < many; ++i) ids.push_back(Mix(i * 7 + rng.Below(7)));
    std::vector<float> gradients(ids.size() * kDim);
    for (float& g : gradients) g = static_cast<float>(rng.Uniform() - 0.5);
    PushRequest request{.key = {.begin = n, .end = n + 1}, .worker = WorkerId(1), .view = 1};
    request.tables = {{ids, gradients}};
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    return std::string(split.body(0).view());
  }
  absl::Status Push(int64_t n) {
    const auto outcome = shard_->Push(PushOf(n), store_.get());
    if (!outcome.ok()) return outcome.status();
    RUBATO_CHECK(*outcome == PushOutcome::kApplied);
    return absl::OkStatus();
  }
  void Checkpoint(int64_t version) {
    const auto name = store_->Cut({.version = version, .base = version - 1}, *shard_);
    RUBATO_CHECK_OK(name.status());
    const std::string path = CheckpointPath(options_.checkpoints, version, 0);
    RUBATO_CHECK_OK(MakeDirectories(absl::StrCat(options_.checkpoints, "/", version)));
    const auto file = RecordFile::Create(path);
    CheckpointWriter writer(*shard_, *name);
    while (!*writer.Step(**file)) {
    }
    writer.Published();
    store_->Checkpointed(*name, (*file)->bytes());
  }
  int64_t Recycled() const {  // Files that are longer than their part of the log.
    int64_t files = 0;
    for (const auto& [segment, bytes] : store_->log()) {
      const auto size = std::filesystem::file_size(SegmentPath(options_.directory, segment));
      files += static_cast<int64_t>(size) > bytes + 8192;
    }
    return files;
  }

  const TestFolder folder_;
  ParamsServerOptions options_;
  SystemMemory memory_{/*huge_pages=*/false};
  std::unique_ptr<ParamsStore> store_;
  std::unique_ptr<Shard> shard_;
};

// Hundreds of lives, each of a few pushes, with checkpoints on the way: segments are written over
// all the time, and every life begins with what one shard holds that saw every push once.
TEST_F(StoreTest, LivesOnOldSegmentsLoseNothing) {
  Shard serial(memory_, {.rows_max = 1 << 16});
  serial.SetView(1, {WorkerId(1)});
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(shard_->Declare(Declared(), store_.get()).ok());
  ASSERT_TRUE(serial.Declare(Declared(), nullptr).ok());
  Rng rng(5);
  int64_t pushed = 0, version = 0, recycled = 0;
  for (int life = 0; life < 150; ++life) {
    for (uint64_t n = rng.Below(12); n > 0; --n, ++pushed) {
      ASSERT_TRUE(Push(pushed).ok());
      ASSERT_TRUE(serial.Push(PushOf(pushed), nullptr).ok());
      if (!rng.Chance(0.2)) continue;
      Checkpoint(++version);
      if (rng.Chance(0.8)) store_->spares()->Keep(store_->DropLogBefore(version));
    }
    recycled += Recycled();
    const LogSizes log = store_->log();
    const absl::Status lives = Live();
    ASSERT_TRUE(lives.ok()) << lives;
    ASSERT_TRUE(shard_->Export() == serial.Export()) << "life " << life;
    // What followers may have of it is as long as it was, whatever the files are.
    LogSizes again = store_->log();
    again.erase(std::prev(again.end()));
    ASSERT_EQ(again, log) << "life " << life;
  }
  EXPECT_GT(recycled, 50);
}

// A flipped byte anywhere in the used part, the last header and the end among it, is named; and so
// is a file that has another's name.
TEST_F(StoreTest, ACutTakesTheSegmentThatWasMadeForItAndNoOther) {
  ASSERT_TRUE(Live().ok());
  RUBATO_CHECK_OK(shard_->Declare(Declared(), store_.get()));
  int64_t pushes = 0;
  for (int64_t version = 1; version <= 3; ++version) {
    ASSERT_TRUE(Push(pushes++).ok());
    const int64_t next = store_->next_segment();
    EXPECT_EQ(next, version + 1);
    auto ahead = store_->spares()->Ahead(next + (version == 2 ? 1 : 0));
    ASSERT_TRUE(ahead.ok()) << ahead.status();
    const std::string next_log = options_.directory + "/next.log";
    EXPECT_TRUE(PathExists(next_log));
    const auto name = store_->Cut({.version = version}, *shard_, *std::move(ahead));
    ASSERT_TRUE(name.ok()) << name.status();
    EXPECT_EQ(name->first_segment, next);
    EXPECT_FALSE(PathExists(next_log));
    EXPECT_EQ(store_->next_segment(), 0) << "nothing stands in it yet";
  }
  ASSERT_TRUE(Push(pushes++).ok());
  const std::string before = shard_->Export();
  ASSERT_TRUE(Live().ok());
  EXPECT_TRUE(shard_->Export() == before);
}

TEST_F(StoreTest, DamageInARecycledSegmentIsNamed) {
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(shard_->Declare(Declared(), store_.get()).ok());
  for (int64_t n = 0; n < 60; ++n) ASSERT_TRUE(Push(n).ok());
  Checkpoint(1);
  store_->spares()->Keep(store_->DropLogBefore(1));
  Checkpoint(2);
  for (int64_t n = 60; n < 65; ++n) ASSERT_TRUE(Push(n).ok());
  ASSERT_EQ(Recycled(), 1);
  const std::string state = shard_->Export();
  const auto [segment, bytes] = *store_->log().rbegin();
  const std::string path = SegmentPath(options_.directory, segment);
  const std::string whole = *ReadWholeFile(path);
  const auto refused = [&](int64_t at) {
    FlipByte(path, at);
    shard_.reset();
    store_.reset();
    const auto store = ParamsStore::Open(options_);
    const absl::Status status = (*store)->Recover(memory_).status();
    FlipByte(path, at);
    return status;
  };
  for (int64_t at = 0; at < bytes + 32; at += at < 64 || at > bytes - 64 ? 1 : 101) {
    const absl::Status status = refused(at);
    ASSERT_TRUE(absl::IsDataLoss(status)) << at << " of " << bytes << ": " << status;
    ASSERT_THAT(std::string(status.message()), HasSubstr(path + ": damaged at byte")) << at;
  }
  ASSERT_EQ(*ReadWholeFile(path), whole);
  // So is a file that was cut off anywhere before its end.
  shard_.reset();
  store_.reset();
  for (int64_t at = 0; at < bytes + 32; at += at < 64 || at > bytes - 64 ? 1 : 101) {
    ASSERT_TRUE(WriteFileAtomically(path, whole.substr(0, static_cast<size_t>(at))).ok());
    const absl::Status status = (*ParamsStore::Open(options_))->Recover(memory_).status();
    ASSERT_TRUE(absl::IsDataLoss(status)) << at << " of " << bytes << ": " << status;
    ASSERT_THAT(std::string(status.message()),
                HasSubstr(absl::StrCat(path, ": damaged at byte ", at, ": the file was cut off")));
  }
  ASSERT_TRUE(WriteFileAtomically(path, whole).ok());
  FlipByte(path, bytes + 32);  // Behind the end lies what nobody reads.
  FlipByte(path, static_cast<int64_t>(whole.size()) - 100);
  ASSERT_TRUE(Live().ok());
  EXPECT_TRUE(shard_->Export() == state);
  shard_.reset();
  store_.reset();
  std::filesystem::rename(path, SegmentPath(options_.directory, segment + 2));
  EXPECT_THAT(std::string(Live().message()), HasSubstr(absl::StrCat(" is segment ", segment)));
}

// All its bytes are sound, and yet a record cannot follow those before it, as when some of those
// came back as zeros, which look like an end. The log ends before that record.
TEST_F(StoreTest, ALogThatDoesNotReplayEndsWhereItCannot) {
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(shard_->Declare(Declared(), store_.get()).ok());
  for (int64_t n = 0; n < 4; ++n) ASSERT_TRUE(Push(n).ok());
  Checkpoint(1);
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(Push(4).ok());
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(Push(5).ok());
  ASSERT_TRUE(Push(6).ok());
  const std::string path = SegmentPath(options_.directory, store_->end().segment);
  ASSERT_TRUE(store_->Append(RecordKind::kPush, PushOf(2)).ok());
  ASSERT_TRUE(store_->Append(RecordKind::kPush, PushOf(7)).ok());
  EXPECT_TRUE(absl::IsDataLoss(Live()));
  options_.mend_log = true;
  const absl::Status mended = Live();
  ASSERT_TRUE(mended.ok()) << mended;
  EXPECT_EQ(store_->replayed(), 3);
  EXPECT_THAT(store_->damage(), ElementsAre(HasSubstr(path + ": record at byte ")));
  EXPECT_TRUE(std::filesystem::exists(path + ".damaged"));
  ASSERT_TRUE(Push(7).ok());
  options_.mend_log = false;
  ASSERT_TRUE(Live().ok());
  EXPECT_EQ(store_->replayed(), 4);
}

// What is kept for speed goes before a push is refused, and a push that is refused is not there.
TEST_F(StoreTest, AFullDiskTakesTheSparesFirst) {
  ASSERT_TRUE(Live().ok());
  ASSERT_TRUE(shard_->Declare(Declared(), store_.get()).ok());
  for (int64_t n = 0; n < 30; ++n) ASSERT_TRUE(Push(n).ok());
  for (int64_t version = 1; version < 3; ++version) {
    Checkpoint(version);
    store_->spares()->Keep(store_->DropLogBefore(version));
  }
  ASSERT_GT(store_->spares()->bytes(), 0);
  const std::string state = shard_->Export();
  const int64_t bytes = store_->log_bytes();
  absl::Status status;
  int64_t n = 30;
  {
    const FullDisk full(8192);
    while (status.ok()) status = Push(n++);
  }
  EXPECT_TRUE(absl::IsResourceExhausted(status)) << status;
  EXPECT_EQ(store_->spares()->bytes(), 0);
  const std::string before = shard_->Export();
  ASSERT_TRUE(Live().ok());
  EXPECT_TRUE(shard_->Export() == before);
  EXPECT_GE(store_->log_bytes(), bytes);
  ASSERT_TRUE(Push(n - 1).ok());  // The one that was refused.
}

// A checkpoint that finds no room takes them as well, so that the next one does.
TEST(FullDiskTest, SparesGoBeforeTheNextCheckpoint) {
  const TestFolder folder;
  const ParamsServerOptions options = TestServerOptions(folder.path(), 0, 1);
  RUBATO_CHECK_OK(MakeDirectories(options.directory));
  const std::string spare = options.directory + "/spare-000001.log";
  const auto make_spare = [&] {
    RUBATO_CHECK_OK(WriteFileAtomically(spare, std::string(9000, 'x')));
  };
  const auto checkpoint = [](ParamsServer& server) {
    return Await<absl::Status>([&](const std::function<void(absl::Status)>& done) {
      server.StartCheckpoint({.version = 1}, done);
    });
  };
  make_spare();
  auto server = ParamsServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  // The segment of this life lies over it already.
  EXPECT_FALSE(PathExists(spare));
  server->reset();
  make_spare();
  RUBATO_CHECK_OK(
      WriteFileAtomically(options.directory + "/spare-000002.log", std::string(99, 'x')));
  server = ParamsServer::Start(options);
  ASSERT_TRUE(server.ok()) << server.status();
  std::vector<std::string> names = *ListDirectory(options.directory);
  const auto spares = [&] {
    names = *ListDirectory(options.directory);
    return std::count_if(names.begin(), names.end(),
                         [](const std::string& name) { return absl::StartsWith(name, "spare-"); });
  };
  ASSERT_EQ(spares(), 1);
  {
    const FullDisk full(16);  // Not even a header of a checkpoint.
    EXPECT_TRUE(absl::IsResourceExhausted(checkpoint(**server)));
  }
  EXPECT_EQ(spares(), 0);
  EXPECT_TRUE(checkpoint(**server).ok());
}

}  // namespace
}  // namespace rubato
