#include "rubato/membership/wire.h"

#include <gtest/gtest.h>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

Packet AViewPacket() {
  ViewMessage message{.kind = ViewMessage::Kind::kPromise, .number = 8, .ballot = {3, MemberId(5)}};
  message.from = {MemberId(77), "10.0.0.7:4000"};
  message.applied = 41;
  message.voted = 42;
  message.view = GroupView{.number = 8, .members = {message.from}, .holders = 1, .step = 41};
  message.gone = {{MemberId(3), MemberId(77), LossReason::kProcess}};
  return {.group = 99,
          .view = 7,
          .step = 41,
          .from = message.from,
          .finished = MemberId(6),
          .body = message};
}

Packet ASwimPacket() {
  SwimMessage message{.kind = SwimMessage::Kind::kPingRequest, .sequence = 12};
  message.from = {MemberId(77), "10.0.0.7:4000"};
  message.target = {MemberId(78), "10.0.0.8:4000"};
  message.rumours = {{message.target, Health::kSuspect, 4}};
  return {.group = 99, .view = 7, .from = message.from, .body = message};
}

TEST(WireTest, WhatIsSentIsReceived) {
  for (const Packet& packet : {AViewPacket(), ASwimPacket()}) {
    const absl::StatusOr<Packet> read = DecodePacket(EncodePacket(packet));
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(EncodePacket(*read), EncodePacket(packet));
  }
  const auto read = DecodePacket(EncodePacket(AViewPacket()));
  EXPECT_EQ(std::get<ViewMessage>(read->body).view->step, 41);
  const std::vector<Loss> gone = {{MemberId(3), MemberId(77), LossReason::kProcess}};
  EXPECT_EQ(std::get<ViewMessage>(read->body).gone, gone);
  EXPECT_EQ(read->from.address, "10.0.0.7:4000");
  EXPECT_EQ(read->step, 41);
  EXPECT_EQ(read->finished, MemberId(6));
  EXPECT_EQ(DecodePacket(EncodePacket(ASwimPacket()))->finished, MemberId());
}

TEST(WireTest, CutPacketsAreRefused) {
  for (const Packet& packet : {AViewPacket(), ASwimPacket()}) {
    const std::string bytes = EncodePacket(packet);
    for (size_t n = 0; n < bytes.size(); ++n) {
      EXPECT_FALSE(DecodePacket(absl::string_view(bytes).substr(0, n)).ok()) << n;
    }
    EXPECT_FALSE(DecodePacket(bytes + "x").ok());
  }
}

// Whatever bits flip, decoding ends, within bounds, with a packet or a Status.
TEST(WireTest, BrokenPacketsNeverOverrun) {
  Rng rng(1);
  for (int round = 0; round < 20000; ++round) {
    std::string bytes = EncodePacket(round % 2 ? AViewPacket() : ASwimPacket());
    for (int flips = 0; flips < 3; ++flips) bytes[rng.Below(bytes.size())] ^= 1 << rng.Below(8);
    const auto packet = DecodePacket(bytes);
    if (packet.ok()) EncodePacket(*packet);
  }
}

}  // namespace
}  // namespace rubato
