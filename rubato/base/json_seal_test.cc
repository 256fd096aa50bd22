#include "rubato/base/json_seal.h"

#include <gtest/gtest.h>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

TEST(JsonSealTest, ADocumentIsSealedWhateverItsSpaces) {
  for (const char* text : {"{\"a\": 1}", "{\"a\": 1}\n", "{\n \"a\": 1\n}\n"}) {
    EXPECT_EQ(SealOf(Sealed(text)), Seal::kSound) << text;
    EXPECT_EQ(SealOf(text), Seal::kNone) << text;
  }
  EXPECT_EQ(SealOf(""), Seal::kNone);
  EXPECT_EQ(SealOf("\"\n}\n"), Seal::kNone);
}

TEST(JsonSealTest, EveryBitCounts) {
  const std::string sealed = Sealed("{\"step\": 300, \"servers\": 2}\n");
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    EXPECT_NE(SealOf(flipped), Seal::kSound) << flipped;
  }
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_NE(SealOf(sealed.substr(0, size)), Seal::kSound) << size;
  }
}

// Bytes put in, taken out and changed at random.
TEST(JsonSealTest, NothingElseIsSound) {
  const std::string sealed = Sealed("{\"step\": 300, \"servers\": 2}\n");
  Rng rng(11);
  for (int i = 0; i < 20000; ++i) {
    std::string text = sealed;
    for (uint64_t changes = 1 + rng.Below(4); changes > 0; --changes) {
      const size_t at = rng.Below(text.size());
      const char byte = static_cast<char>(rng.Below(256));
      switch (rng.Below(3)) {
        case 0:
          text[at] = byte;
          break;
        case 1:
          text.insert(at, 1, byte);
          break;
        default:
          text.erase(at, 1 + rng.Below(text.size() - at));
          if (text.empty()) text = byte;
      }
    }
    if (text == sealed) continue;
    EXPECT_NE(SealOf(text), Seal::kSound) << text;
  }
}

TEST(JsonSealTest, ALineIsReadAsItWas) {
  std::string text;
  ASSERT_TRUE(ReadSealedLine(SealedLine("17"), &text));
  EXPECT_EQ(text, "17");
  // Of an earlier build.
  ASSERT_TRUE(ReadSealedLine("17\n", &text));
  EXPECT_EQ(text, "17");
  const std::string sealed = SealedLine("17");
  for (size_t size = 0; size < sealed.size(); ++size) {
    EXPECT_FALSE(ReadSealedLine(sealed.substr(0, size), &text)) << size;
  }
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    // Without its blank it is one word, and no number.
    if (!ReadSealedLine(flipped, &text)) continue;
    EXPECT_EQ(text.size(), sealed.size() - 1) << flipped;
  }
}

TEST(JsonSealTest, LinesAreReadAsTheyWere) {
  const std::string lines = "3 120\n7 64";
  std::string read;
  ASSERT_TRUE(ReadSealedLines(SealedLines(lines), &read));
  EXPECT_EQ(read, lines);
  // Of an earlier build.
  ASSERT_TRUE(ReadSealedLines(lines, &read));
  EXPECT_EQ(read, lines);
  // Whatever is wrong with it: never the same lines, nor others that begin with a number.
  const std::string sealed = SealedLines(lines);
  const auto expect_noticed = [&](const std::string& text) {
    if (!ReadSealedLines(text, &read)) return;
    EXPECT_TRUE(read.empty() || read.front() < '0' || read.front() > '9') << text;
  };
  for (size_t size = 0; size < sealed.size(); ++size) expect_noticed(sealed.substr(0, size));
  for (size_t i = 0; i < 8 * sealed.size(); ++i) {
    std::string flipped = sealed;
    flipped[i / 8] = static_cast<char>(flipped[i / 8] ^ (1 << i % 8));
    expect_noticed(flipped);
  }
}

}  // namespace
}  // namespace rubato
