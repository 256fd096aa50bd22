#include "rubato/ring/kernels.h"

#include <gtest/gtest.h>

#include <bit>
#include <cmath>
#include <cstring>
#include <limits>
#include <vector>

#include "rubato/base/rng.h"
#include "rubato/ring/canonical.h"

namespace rubato {
namespace {

// Every 16-bit pattern survives the way to float and back.
TEST(KernelsTest, HalvesOfEveryKindComeBack) {
  for (uint32_t bits = 0; bits < 65536; ++bits) {
    const uint16_t half = static_cast<uint16_t>(bits);
    if (!std::isnan(FromFp16(half))) {
      EXPECT_EQ(ToFp16(FromFp16(half)), half);
    }
    if (!std::isnan(FromBf16(half))) {
      EXPECT_EQ(ToBf16(FromBf16(half)), half);
    }
  }
}

TEST(KernelsTest, RoundsToTheNearestEven) {
  EXPECT_EQ(FromFp16(ToFp16(1.0f + 0x1p-11f)), 1.0f);            // A tie goes to the even.
  EXPECT_EQ(FromFp16(ToFp16(1.0f + 0x3p-11f)), 1.0f + 0x1p-9f);  // So does this one.
  EXPECT_EQ(FromFp16(ToFp16(65519.0f)), 65504.0f);
  EXPECT_TRUE(std::isinf(FromFp16(ToFp16(65520.0f))));
  EXPECT_EQ(FromFp16(ToFp16(0x1p-24f)), 0x1p-24f);  // The least denormal.
  EXPECT_EQ(FromFp16(ToFp16(-0x1p-26f)), -0.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x1p-8f)), 1.0f);
  EXPECT_EQ(FromBf16(ToBf16(1.0f + 0x3p-8f)), 1.0f + 0x1p-6f);
  EXPECT_TRUE(std::isnan(FromBf16(ToBf16(std::numeric_limits<float>::quiet_NaN()))));
  EXPECT_TRUE(std::isnan(FromFp16(ToFp16(std::numeric_limits<float>::quiet_NaN()))));
}

TEST(KernelsTest, SumsOfAnyNumberOfPartsGoInOrder) {
  Rng rng(3);
  for (int count = 1; count <= 9; ++count) {
    std::vector<std::vector<float>> parts(count, std::vector<float>(37));
    std::vector<const float*> pointers;
    for (auto& part : parts) {
      for (float& v : part) v = static_cast<float>(rng.Normal());
      pointers.push_back(part.data());
    }
    std::vector<float> sum(30);
    SumOf(absl::MakeSpan(sum), pointers, 5);
    for (int i = 0; i < 30; ++i) {
      float expected = parts[0][5 + i];
      for (int p = 1; p < count; ++p) expected += parts[p][5 + i];
      EXPECT_EQ(sum[i], expected) << count << " parts, element " << i;
    }
  }
}

// However the microbatches are divided among however many workers, the sum has the same bits.
TEST(CanonicalTest, TheSumDoesNotKnowTheWorkers) {
  Rng rng(5);
  for (int count : {1, 2, 3, 7, 8, 13, 16, 31, 32}) {
    std::vector<std::vector<float>> leaves(count, std::vector<float>(11));
    for (auto& leaf : leaves) {
      for (float& v : leaf) v = static_cast<float>(rng.Normal() * std::exp(8 * rng.Normal()));
    }
    const auto sum_of = [&](const std::vector<Subtree>& subtrees) {
      std::vector<std::vector<float>> sums;
      for (const Subtree& subtree : subtrees) {
        // Each worker adds up its subtrees with the same function, leaf by leaf.
        std::vector<std::vector<float>> own(leaves.begin() + subtree.begin,
                                            leaves.begin() + subtree.end);
        std::vector<absl::Span<float>> spans;
        std::vector<Subtree> singles;
        for (size_t i = 0; i < own.size(); ++i) {
          spans.push_back(absl::MakeSpan(own[i]));
          singles.push_back({static_cast<int>(i), static_cast<int>(i) + 1});
        }
        SumCanonical(singles, spans, static_cast<int>(own.size()));
        sums.push_back(own[0]);
      }
      std::vector<absl::Span<float>> spans;
      for (auto& sum : sums) spans.push_back(absl::MakeSpan(sum));
      SumCanonical(subtrees, spans, count);
      return sums[0];
    };
    const std::vector<float> alone = sum_of(WholeSubtrees(count, 0, count));
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<Subtree> subtrees;
      for (int begin = 0; begin < count;) {
        const int end = begin + 1 + static_cast<int>(rng.Below(count - begin));
        for (const Subtree& s : WholeSubtrees(count, begin, end)) subtrees.push_back(s);
        begin = end;
      }
      EXPECT_EQ(sum_of(subtrees), alone) << count << " microbatches";
    }
  }
}

// The way that a group takes: each adds up its run as it comes, all places are summed over the
// members, a piece at a time, and everyone adds up what is there.
TEST(CanonicalTest, NorDoesTheSumThatTravels) {
  constexpr size_t kLength = 11, kPiece = 4;
  Rng rng(6);
  for (int count : {1, 2, 3, 7, 8, 13, 32}) {
    std::vector<std::vector<float>> leaves(count, std::vector<float>(kLength));
    for (auto& leaf : leaves) {
      for (float& v : leaf) v = static_cast<float>(rng.Normal() * std::exp(8 * rng.Normal()));
      leaf[3] = -0.0f;
    }
    const auto sum_by = [&](const std::vector<Quota>& quotas) {
      std::vector<CanonicalSum> sums;
      std::vector<CanonicalPlaces> places;
      for (size_t rank = 0; rank < quotas.size(); ++rank) {
        sums.emplace_back(count, quotas[rank].begin);
        for (int m = quotas[rank].begin; m < quotas[rank].end; ++m) sums[rank].Add(leaves[m]);
        places.emplace_back(count, quotas, static_cast<int>(rank));
      }
      std::vector<float> sum(kLength);
      for (size_t begin = 0; begin < kLength; begin += kPiece) {
        const absl::Span<float> piece = absl::MakeSpan(sum).subspan(begin, kPiece);
        const absl::Span<float> all = places[0].Fill(sums[0], begin, piece.size());
        for (size_t rank = 1; rank < quotas.size(); ++rank) {
          AddTo(all, places[rank].Fill(sums[rank], begin, piece.size()).data());
        }
        places[0].Sum(piece);
      }
      return sum;
    };
    const std::vector<float> alone = sum_by({{0, count}});
    for (int trial = 0; trial < 20; ++trial) {
      std::vector<Quota> quotas;
      for (int begin = 0; begin < count; begin = quotas.back().end) {
        quotas.push_back({begin, begin + static_cast<int>(rng.Below(count - begin + 1))});
      }
      const std::vector<float> sum = sum_by(quotas);
      EXPECT_EQ(std::memcmp(sum.data(), alone.data(), kLength * sizeof(float)), 0)
          << count << " microbatches, " << quotas.size() << " members";
    }
  }
}

}  // namespace
}  // namespace rubato
