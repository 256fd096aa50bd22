#include "tests/digits.h"

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"

namespace rubato {
namespace {

void PutBigEndian(std::string& out, uint32_t value) {
  for (int shift = 24; shift >= 0; shift -= 8) out.push_back(static_cast<char>(value >> shift));
}

void WriteImages(const ScratchFolder& folder, const std::string& name, int64_t count, int contrast,
                 uint64_t seed) {
  Rng rng(seed);
  std::string images, labels;
  PutBigEndian(images, 0x00000803);
  PutBigEndian(images, static_cast<uint32_t>(count));
  PutBigEndian(images, 28);
  PutBigEndian(images, 28);
  PutBigEndian(labels, 0x00000801);
  PutBigEndian(labels, static_cast<uint32_t>(count));
  for (int64_t i = 0; i < count; ++i) {
    const DigitImage image = NextDigit(rng, contrast);
    labels.push_back(static_cast<char>(image.kind));
    images.append(image.pixels.begin(), image.pixels.end());
  }
  folder.Write(name + "-images", images);
  folder.Write(name + "-labels", labels);
}

}  // namespace

std::string WriteDigitsJob(const ScratchFolder& folder, int64_t images, const std::string& extra,
                           int contrast) {
  WriteImages(folder, "train", images, contrast, 1);
  WriteImages(folder, "valid", 300, contrast, 2);
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

std::string WritePacedDigitsJob(const ScratchFolder& folder, int64_t images,
                                const std::string& extra, int contrast) {
  folder.Write("train", absl::StrCat(images, " 1 ", contrast));
  folder.Write("valid", absl::StrCat(600, " 2 ", contrast));
  std::string pixels = "p0";
  for (int i = 1; i < kDigitPixels; ++i) absl::StrAppend(&pixels, ", p", i);
  return folder.Write(
      "job.yaml",
      absl::StrCat("name: digits\nmodel: mnist_cnn\nstrategy: allreduce\nbatch_size: 32\n"
                   "data: {format: " RUBATO_PACED_DIGITS
                   ", train: train, validation: valid, label: digit, numeric: [",
                   pixels, "]}\noptimizer: {name: sgd, learning_rate: 0.05}\n", extra));
}

}  // namespace rubato
