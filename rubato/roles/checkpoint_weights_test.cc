// The small files that say what a checkpoint and an export are: a bit of any of them is noticed.
#include "rubato/roles/checkpoint_weights.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <functional>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/json_seal.h"
#include "rubato/roles/export_manifest.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

constexpr char kManifest[] = "{\"version\": 7, \"step\": 300, \"servers\": 2, \"committed\": {}}\n";

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
