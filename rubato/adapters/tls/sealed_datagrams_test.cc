#include "rubato/adapters/tls/sealed_datagrams.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/escaping.h"
#include "rubato/adapters/tls/keys.h"

namespace rubato {
namespace {

const std::string kKey(32, 'k');

// The first example of RFC 5869.
TEST(KeysTest, AreThoseOfTheStandard) {
  const std::string secret(22, '\x0b');
  const std::string salt = absl::HexStringToBytes("000102030405060708090a0b0c");
  const std::string purpose = absl::HexStringToBytes("f0f1f2f3f4f5f6f7f8f9");
  EXPECT_EQ(absl::BytesToHexString(DeriveKey({secret, salt, purpose}, 42)),
            "3cb25f25faacd57a90434f64d0362f2a2d2d0a90cf1a5a4c5db02d56ecc4c5bf34007208d5b887185865");
}

TEST(SealedDatagramsTest, WhoKnowsTheKeyReadsThem) {
  SealedDatagrams alice(kKey), bob(kKey), eve(std::string(32, 'e'));
  for (const std::string& packet : {std::string(), std::string("a"), std::string(60000, 'x')}) {
    const std::string datagram = alice.Seal(packet);
    EXPECT_EQ(datagram.size(), packet.size() + SealedDatagrams::kOverhead);
    EXPECT_EQ(eve.Open(datagram), std::nullopt);
    EXPECT_EQ(bob.Open(datagram), packet);
  }
}

TEST(SealedDatagramsTest, NothingOfThePacketCanBeSeen) {
  SealedDatagrams alice(kKey);
  const std::string first = alice.Seal("weights weights weights");
  const std::string second = alice.Seal("weights weights weights");
  EXPECT_EQ(first.find("weights"), std::string::npos);
  EXPECT_NE(first.substr(25), second.substr(25)) << "the same words look different every time";
}

// Any bit of it, header and tag too; and any shorter part.
TEST(SealedDatagramsTest, WhatWasChangedOnTheWayIsDropped) {
  SealedDatagrams alice(kKey), bob(kKey);
  const std::string good = alice.Seal("view 7");
  for (size_t bit = 0; bit < good.size() * 8; ++bit) {
    std::string bad = good;
    bad[bit / 8] = static_cast<char>(bad[bit / 8] ^ (1 << bit % 8));
    EXPECT_EQ(bob.Open(bad), std::nullopt) << "bit " << bit;
  }
  for (size_t bytes = 0; bytes < good.size(); ++bytes) {
    EXPECT_EQ(bob.Open(good.substr(0, bytes)), std::nullopt) << bytes << " bytes";
  }
  EXPECT_EQ(bob.Open(good + "x"), std::nullopt);
  EXPECT_EQ(bob.Open(good), "view 7") << "and none of that spoils the good one";
}

TEST(SealedDatagramsTest, WhatComesAgainIsDropped) {
  SealedDatagrams alice(kKey), bob(kKey), carol(kKey);
  std::vector<std::string> sent;
  for (int i = 0; i < 200; ++i) sent.push_back(alice.Seal(std::to_string(i)));
  // In any order, as a network delivers them.
  for (const int i : {3, 1, 2, 0, 40, 39, 41}) {
    EXPECT_EQ(bob.Open(sent[i]), std::to_string(i));
    EXPECT_EQ(bob.Open(sent[i]), std::nullopt) << i;
  }
  for (const int i : {0, 1, 2, 3, 39, 40, 41}) EXPECT_EQ(bob.Open(sent[i]), std::nullopt) << i;
  EXPECT_EQ(bob.Open(sent[199]), "199");
  EXPECT_EQ(bob.Open(sent[100]), std::nullopt) << "too old to know whether it came before";
  EXPECT_EQ(bob.Open(sent[150]), "150");
  EXPECT_EQ(bob.Open(sent[150]), std::nullopt);
  // Each receiver counts for itself, and each sender.
  EXPECT_EQ(carol.Open(sent[0]), "0");
  EXPECT_EQ(bob.Open(carol.Seal("mine")), "mine");
}

TEST(SealedDatagramsTest, StrangersTakeNoMemory) {
  SealedDatagrams alice(kKey), bob(kKey, /*senders_max=*/2);
  const std::string first = alice.Seal("first");
  EXPECT_EQ(bob.Open(first), "first");
  for (int i = 0; i < 10; ++i) {
    SealedDatagrams stranger(std::string(32, 's'));
    EXPECT_EQ(bob.Open(stranger.Seal("let me in")), std::nullopt);
  }
  EXPECT_EQ(bob.Open(first), std::nullopt) << "a sender who was believed is not forgotten for them";
  // But for two others who were, if it was silent meanwhile.
  SealedDatagrams carol(kKey), dave(kKey);
  EXPECT_EQ(bob.Open(carol.Seal("c")), "c");
  EXPECT_EQ(bob.Open(alice.Seal("second")), "second");
  EXPECT_EQ(bob.Open(dave.Seal("d")), "d");
  EXPECT_EQ(bob.Open(first), std::nullopt);
}

}  // namespace
}  // namespace rubato
