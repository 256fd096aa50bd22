// Runs with the reference BLAS in place of the tuned one (see CMakeLists.txt): training with it
// would work, thirty times slower, and nobody would know why.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rubato/adapters/torch_loader/load_trainer.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(ReferenceBlasTest, IsRefusedWithTheRemedy) {
  JobSpec spec;
  spec.model = "logistic";
  const absl::Status status = LoadTrainer(spec, {.ids = {"a"}}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("install libopenblas0-pthread"));
}

}  // namespace
}  // namespace rubato
