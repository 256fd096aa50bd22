#include "tests/digits.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

constexpr int kPixels = 28 * 28;

void PutBigEndian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

// Each kind is a pattern of blocks; an image is its pattern under noise.
void WriteImages(const ScratchFolder& folder, const std::string& name, int64_t count,
                 uint64_t seed) {
  std::vector<std::vector<int>> kinds(10, std::vector<int>(kPixels));
  for (uint64_t kind = 0; kind < 10; ++kind) {
    for (int i = 0; i < kPixels; ++i) {
      const uint64_t block = static_cast<uint64_t>(i / 28 / 4 * 7 + i % 28 / 4);
      kinds[kind][static_cast<size_t>(i)] = Mix(Mix(99, kind), block) % 2 == 0 ? 40 : 160;
    }
  }
  Rng rng(seed);
  std::string images, labels;
  PutBigEndian(images, 0x00000803);
  PutBigEndian(images, static_cast<uint32_t>(count));
  PutBigEndian(images, 28);
  PutBigEndian(images, 28);
  PutBigEndian(labels, 0x00000801);
  PutBigEndian(labels, static_cast<uint32_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const size_t kind = rng.Below(10);
    labels.push_back(static_cast<char>(kind));
    for (int p = 0; p < kPixels; ++p) {
      const int noise = static_cast<int>(rng.Below(160)) - 80;
      images.push_back(
          static_cast<char>(std::clamp(kinds[kind][static_cast<size_t>(p)] + noise, 0, 255)));
    }
  }
  folder.Write(name + "-images", images);
  folder.Write(name + "-labels", labels);
}

}  // namespace

std::string WriteDigitsJob(const ScratchFolder& folder, int64_t images, const std::string& extra) {
  WriteImages(folder, "train", images, 1);
  WriteImages(folder, "valid", 300, 2);
  return folder.Write("job.yaml", absl::StrCat("name: digits\n"
                                               "model: mnist_cnn\n"
                                               "strategy: allreduce\n"
                                               "data:\n"
                                               "  format: idx\n"
                                               "  train: [train-images, train-labels]\n"
                                               "  validation: [valid-images, valid-labels]\n"
                                               "batch_size: 32\n"
                                               "optimizer: {name: sgd, learning_rate: 0.05}\n",
                                               extra));
}

}  // namespace rubato
