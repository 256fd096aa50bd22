#include "rubato/net/wire_format.h"

#include <gtest/gtest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "absl/strings/string_view.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

// Numbers of every size, and all that is odd.
std::vector<float> Numbers() {
  std::vector<float> numbers = {0.0f,
                                -0.0f,
                                0x1p-24f,
                                0x1p-25f,
                                0x3p-25f,
                                -0x1p-26f,
                                0x1p-14f,
                                65504.0f,
                                65519.0f,
                                65520.0f,
                                -1e30f,
                                std::numeric_limits<float>::infinity(),
                                -std::numeric_limits<float>::infinity(),
                                std::numeric_limits<float>::quiet_NaN(),
                                std::numeric_limits<float>::max(),
                                std::numeric_limits<float>::denorm_min()};
  Rng rng(3);
  for (int i = 0; i < 5000; ++i) {
    numbers.push_back(static_cast<float>(rng.Normal() * std::exp(12 * rng.Normal())));
    numbers.push_back(std::bit_cast<float>(static_cast<uint32_t>(rng.Next())));
  }
  return numbers;
}

// Whatever the instruction set and the place in a vector, the bits are those of the scalar
// functions; of a NaN it is only said that it stays one.
TEST(WireFormatTest, EveryKernelGivesTheSameBits) {
  const std::vector<float> numbers = Numbers();
  const WireKernels* kernels[3];
  const size_t sets = WireKernelsHere(kernels);
  for (size_t set = 0; set < sets; ++set) {
    for (const size_t count : {size_t{1}, size_t{7}, size_t{8}, size_t{31}, numbers.size()}) {
      std::vector<uint16_t> bf16(count), fp16(count);
      std::vector<float> back(count);
      kernels[set]->to_bf16(numbers.data(), count, bf16.data());
      kernels[set]->to_fp16(numbers.data(), count, fp16.data());
      kernels[set]->from_bf16(bf16.data(), count, back.data());
      for (size_t i = 0; i < count; ++i) {
        if (std::isnan(numbers[i])) {
          ASSERT_TRUE(std::isnan(FromBf16(bf16[i])) && std::isnan(FromFp16(fp16[i])));
          ASSERT_TRUE(std::isnan(back[i]));
          continue;
        }
        ASSERT_EQ(bf16[i], ToBf16(numbers[i])) << set << ": " << numbers[i];
        ASSERT_EQ(fp16[i], ToFp16(numbers[i])) << set << ": " << numbers[i];
        ASSERT_EQ(back[i], FromBf16(bf16[i]));
      }
      kernels[set]->from_fp16(fp16.data(), count, back.data());
      for (size_t i = 0; i < count; ++i) {
        if (std::isnan(numbers[i])) continue;
        ASSERT_EQ(back[i], FromFp16(fp16[i])) << set << ": " << numbers[i];
      }
    }
  }
}

TEST(WireFormatTest, PackedFloatsComeBackAsNearAsTheFormatGoes) {
  const std::vector<float> numbers = {1.0f, -3.14159f, 1e-3f, 1234.5f, 0.0f};
  for (const auto& [name, error] : {std::pair{"fp32", 0.0}, {"bf16", 0x1p-8}, {"fp16", 0x1p-11}}) {
    const WireFormat format = WireFormatOf(absl::string_view(name));
    EXPECT_STREQ(WireFormatName(format), name);
    std::vector<char> wire(numbers.size() * WireBytes(format));
    std::vector<float> back(numbers.size());
    PackFloats(format, numbers.data(), numbers.size(), wire.data());
    UnpackFloats(format, wire.data(), numbers.size(), back.data());
    for (size_t i = 0; i < numbers.size(); ++i) {
      EXPECT_LE(std::abs(back[i] - numbers[i]), std::abs(numbers[i]) * error) << name;
    }
  }
}

// What fp16 cannot hold arrives as infinity, which servers refuse.
TEST(WireFormatTest, TooLargeForFp16IsInfinite) {
  EXPECT_TRUE(std::isinf(FromFp16(ToFp16(70000.0f))));
  EXPECT_FALSE(std::isinf(FromBf16(ToBf16(70000.0f))));
}

}  // namespace
}  // namespace rubato
