#include "rubato/net/frame.h"
#include "absl/strings/str_cat.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstring>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

std::string Encoded(uint16_t op, uint64_t id, absl::string_view body) {
  FrameHeader header;
  header.body_bytes = static_cast<uint32_t>(body.size());
  header.op = op;
  header.id = id;
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  bytes.append(body.data(), body.size());
  bytes.resize(sizeof(header) + Padded(body.size()));
  return bytes;
}

// Feeds `stream` in pieces of at most `piece` bytes and collects what comes out.
absl::Status Feed(FrameParser& parser, absl::string_view stream, size_t piece,
                  std::vector<std::pair<uint64_t, std::string>>* frames) {
  while (!stream.empty()) {
    const absl::Span<char> space = parser.Space();
    const size_t n = std::min({space.size(), piece, stream.size()});
    std::memcpy(space.data(), stream.data(), n);
    parser.Filled(n);
    stream.remove_prefix(n);
    while (true) {
      auto frame = parser.Next();
      if (!frame.ok()) return frame.status();
      if (!frame->has_value()) break;
      EXPECT_EQ(reinterpret_cast<uintptr_t>((**frame).body.data()) % 8, 0u);
      frames->emplace_back((**frame).header.id, std::string((**frame).body));
    }
  }
  return absl::OkStatus();
}

// However the network cuts the stream, the same frames come out, aligned.
TEST(FrameParserTest, FramesComeOutHoweverTheStreamIsCut) {
  Rng rng(1);
  std::string stream;
  std::vector<std::pair<uint64_t, std::string>> sent;
  for (uint64_t id = 0; id < 60; ++id) {
    std::string body(rng.Chance(0.1) ? rng.Below(300000) : rng.Below(100), 'x');
    for (char& c : body) c = static_cast<char>(rng.Next());
    stream += Encoded(1, id, body);
    sent.emplace_back(id, std::move(body));
  }
  for (const size_t piece : {size_t{7}, size_t{24}, size_t{1000}, size_t{100000}, stream.size()}) {
    FrameParser parser;
    std::vector<std::pair<uint64_t, std::string>> got;
    ASSERT_TRUE(Feed(parser, stream, piece, &got).ok());
    EXPECT_EQ(got, sent) << piece;
  }
}

TEST(FrameParserTest, GarbageAndOversizeAreRefused) {
  std::vector<std::pair<uint64_t, std::string>> frames;
  FrameParser parser;
  EXPECT_THAT(
      std::string(Feed(parser, "GET / HTTP/1.1\r\nHost: example\r\n\r\n", 9, &frames).message()),
      HasSubstr("no frame of Rubato's"));
  FrameParser small(100);
  EXPECT_THAT(
      std::string(Feed(small, Encoded(1, 1, std::string(101, 'x')), 1000, &frames).message()),
      HasSubstr("a frame of 101 bytes, but at most 100"));
  EXPECT_TRUE(frames.empty());
}

// Random bytes, and frames with one flipped bit in the header, never do worse than an error.
TEST(FrameParserTest, HostileBytesDoNoHarm) {
  Rng rng(2);
  for (int round = 0; round < 2000; ++round) {
    std::string stream = Encoded(1, 1, "some body") + Encoded(2, 2, "another");
    stream[rng.Below(stream.size())] ^= static_cast<char>(1 << rng.Below(8));
    FrameParser parser(1 << 20);
    std::vector<std::pair<uint64_t, std::string>> frames;
    (void)Feed(parser, stream, 1 + rng.Below(50), &frames);
    EXPECT_LE(frames.size(), 2u);
  }
}

TEST(HelloTest, GreetingsSurviveTheTripAndVersionsAreCompared) {
  const Hello hello{.job = "ctr", .server = 1, .servers = 2};
  const auto back = DecodeHello(EncodeHello(hello));
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(*back, hello);
  EXPECT_THAT(std::string(DecodeHello(EncodeHello({.version = 9})).status().message()),
              HasSubstr(absl::StrCat("speaks protocol 9, this server ", kProtocolVersion)));
  for (size_t n = 0; n < EncodeHello(hello).size(); ++n) {
    EXPECT_FALSE(DecodeHello(EncodeHello(hello).substr(0, n)).ok());
  }
}

}  // namespace
}  // namespace rubato
