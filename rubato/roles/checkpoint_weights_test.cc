// The small files that say what a checkpoint and an export are: a bit of any of them is noticed.
#include "rubato/roles/checkpoint_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/json_seal.h"
#include "rubato/params/damage_testing.h"
#include "rubato/roles/export_manifest.h"
#include "rubato/worker/replica.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr char kManifest[] = "{\"version\": 7, \"step\": 300, \"servers\": 2, \"committed\": {}}\n";

double FromEnvironment(const char* name, double otherwise) {
  const char* text = std::getenv(name);
  double value = 0;
  return text != nullptr && absl::SimpleAtod(text, &value) ? value : otherwise;
}

// Members that are sound, strange or missing, and bytes that were harmed.
std::string HostileManifest(Damage& damage, const std::string& features) {
  constexpr const char* kStrange[] = {"-1",
                                      "0",
                                      "9223372036854775807",
                                      "9223372036854775808",
                                      "1e18",
                                      "0.5",
                                      "1e400",
                                      "null",
                                      "true",
                                      "[[]]",
                                      "{\"step\": 1}",
                                      "\"7\"",
                                      "\"\"",
                                      "\"..\"",
                                      "\"\\u0000\""};
  const std::pair<const char*, const char*> members[] = {
      {"version", "7"}, {"step", "300"}, {"servers", "2"}, {"committed", "{}"}, {"file", "\"a\""}};
  std::string contents = "{\"records\": 1";
  for (const auto& [name, sound] : members) {
    if (damage.rng.Chance(0.2)) continue;
    const bool strange = damage.rng.Chance(0.2);
    absl::StrAppend(&contents, ", \"", name,
                    "\": ", strange ? kStrange[damage.rng.Below(std::size(kStrange))] : sound);
  }
  contents += "}";
  if (damage.rng.Chance(0.5)) damage.Harm(&contents, kManifest);
  std::string text = SealManifest(contents, damage.rng.Chance(0.5) ? &features : nullptr);
  if (damage.rng.Chance(0.2)) damage.Harm(&text, kManifest);
  return text;
}

class CheckpointWeightsTest : public testing::Test {
 protected:
  CheckpointWeightsTest() : directory_(*JobDirectory::Create(scratch_.path() + "/job")) {
    for (const int64_t version : {6, 7}) {
      EXPECT_TRUE(MakeDirectories(Folder(version)).ok());
      Write(Folder(version) + "/features.yaml", features_);
      Write(Folder(version) + "/manifest.json", SealManifest(kManifest, &features_));
    }
    Write(directory_.best(), SealedLine("7"));
  }
  std::string Folder(int64_t version) const {
    return absl::StrCat(directory_.checkpoints(), "/", version);
  }
  static void Write(const std::string& path, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(path, text, Durability::kProcess).ok()) << path;
  }
  static void WriteReplica(const std::string& path) {
    const TaskPlan plan({.records = 8, .batch_size = 4, .batches_per_task = 2, .together = true});
    const absl::StatusOr<Replica> replica =
        Replica::Make({.batch_size = 4}, plan, std::vector<float>{1, 2});
    ASSERT_TRUE(replica.ok()) << replica.status();
    Write(path, replica->Encode());
  }
  // Whatever bit is flipped and wherever the file is cut, `read` fails and names it.
  static void ExpectEveryBitCounts(const std::string& path,
                                   const std::function<absl::Status()>& read) {
    const std::string sound = *ReadWholeFile(path);
    ASSERT_TRUE(read().ok()) << read();
    for (size_t i = 0; i < 9 * sound.size(); ++i) {
      std::string damaged = sound;
      if (i % 9 == 8) {
        damaged.resize(i / 9);
      } else {
        damaged[i / 9] = static_cast<char>(damaged[i / 9] ^ (1 << i % 9));
      }
      Write(path, damaged);
      const absl::Status status = read();
      ASSERT_FALSE(status.ok()) << damaged;
      ASSERT_THAT(std::string(status.message()), HasSubstr(path)) << damaged;
    }
    Write(path, sound);
  }

  TestFolder scratch_;
  JobDirectory directory_;
  const std::string features_ = "label: clicked\nfeatures:\n  - {column: age}\n";
};

TEST_F(CheckpointWeightsTest, EveryBitOfWhatDescribesItCounts) {
  const auto choose = [&] { return ChooseCheckpoint(directory_, 0).status(); };
  ExpectEveryBitCounts(Folder(7) + "/manifest.json", choose);
  ExpectEveryBitCounts(Folder(7) + "/features.yaml", choose);
  ExpectEveryBitCounts(directory_.best(), choose);
  const auto choice = ChooseCheckpoint(directory_, 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->version, 7);
  EXPECT_EQ(choice->step, 300);
  EXPECT_EQ(choice->servers, 2);
}

TEST_F(CheckpointWeightsTest, WhatEarlierBuildsWroteIsRead) {
  Write(Folder(6) + "/manifest.json", kManifest);
  Write(directory_.best(), "6\n");
  const auto choice = ChooseCheckpoint(directory_, 0);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->version, 6);
  EXPECT_EQ(choice->step, 300);
}

// Not there, or not to be read at all, as on a bad sector: the one before it serves.
TEST_F(CheckpointWeightsTest, AReplicaThatCannotBeReadIsPassedOver) {
  const std::string sound = Folder(6), newest = Folder(7);
  const std::string manifest = R"("step": 300, "file": "worker-0.ckpt"})";
  WriteReplica(sound + "/worker-0.ckpt");
  Write(sound + "/manifest.json", SealManifest("{" + manifest, nullptr));
  Write(newest + "/manifest.json", SealManifest("{" + manifest, nullptr));
  ASSERT_TRUE(MakeDirectories(newest + "/worker-0.ckpt").ok());
  std::vector<std::string> damaged;
  const auto choice = ChooseSoundReplica(directory_, &damaged);
  ASSERT_TRUE(choice.ok()) << choice.status();
  EXPECT_EQ(choice->version, 6);
  ASSERT_EQ(damaged.size(), 1u);
  EXPECT_THAT(damaged.front(), HasSubstr(newest + "/worker-0.ckpt"));
}

// Anything in the place of any member, and bytes harmed at random, as often as not beneath a
// checksum that is right: whatever is taken can be used, and what is refused is named.
// RUBATO_FUZZ_SECONDS=600 searches longer, RUBATO_FUZZ_SEED=7 elsewhere.
TEST_F(CheckpointWeightsTest, HostileManifestsAreTakenOrNamed) {
  const auto end = absl::Now() + absl::Seconds(FromEnvironment("RUBATO_FUZZ_SECONDS", 2));
  const auto seed = static_cast<uint64_t>(FromEnvironment("RUBATO_FUZZ_SEED", 1));
  const std::string path = Folder(7) + "/manifest.json";
  int64_t taken = 0, refused = 0;
  for (uint64_t n = 0; (n < 500 || absl::Now() < end) && !HasFailure(); ++n) {
    Damage damage(Mix(seed, n));
    const std::string text = HostileManifest(damage, features_);
    SCOPED_TRACE(text);
    Write(path, text);
    const auto choice = ChooseCheckpoint(directory_, 7);
    ++(choice.ok() ? taken : refused);
    if (choice.ok()) {
      EXPECT_GE(choice->step, 0);
      // There are no weights beside it.
      EXPECT_EQ(InspectCheckpoint(*choice).ok(), choice->servers == 0);
    } else {
      EXPECT_THAT(std::string(choice.status().message()), HasSubstr(Folder(7) + "/"));
    }
    std::vector<std::string> damaged;
    const absl::Status replica = ChooseSoundReplica(directory_, &damaged).status();
    damaged.emplace_back(replica.message());  // Of this one, or of that before it.
    EXPECT_THAT(damaged.front(), HasSubstr(Folder(7)));
  }
  EXPECT_GT(taken, 0);
  EXPECT_GT(refused, 0);
}

TEST_F(CheckpointWeightsTest, EveryBitOfAnExportsManifestCounts) {
  const std::string folder = scratch_.path() + "/export";
  ASSERT_TRUE(MakeDirectories(folder).ok());
  Write(folder + "/schema", "age,clicked\n");
  const ExportManifest manifest = {.checkpoint = 7, .step = 300, .job = "ctr", .model = "deepfm"};
  ASSERT_TRUE(WriteExportManifest(folder, manifest, {"schema"}).ok());
  const auto read = [&] { return ReadExportManifest(folder).status(); };
  ExpectEveryBitCounts(folder + "/manifest.json", read);
  ExpectEveryBitCounts(folder + "/schema", read);
}

}  // namespace
}  // namespace rubato
