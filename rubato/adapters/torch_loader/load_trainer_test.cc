#include "rubato/adapters/torch_loader/load_trainer.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

const BatchShape kShape{.ids = {"a", "b"}};

JobSpec SpecOf(const std::string& model) {
  JobSpec spec;
  spec.model = model;
  return spec;
}

std::string ErrorOf(const JobSpec& spec) {
  return std::string(LoadTrainer(spec, kShape).status().message());
}

TEST(LoadTrainerTest, AZooModelComesReadyToStep) {
  const auto trainer = LoadTrainer(SpecOf("logistic"), kShape);
  ASSERT_TRUE(trainer.ok()) << trainer.status();
  EXPECT_EQ((*trainer)->signature().tables[0].dim, 1);
  EXPECT_THAT((*trainer)->engine(), HasSubstr("libtorch"));
#if defined(__x86_64__)
  // However new the processor is to OpenBLAS: it is not taken for the oldest.
  if (__builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma")) {
    EXPECT_THAT((*trainer)->engine(), Not(HasSubstr("Prescott")));
  }
#endif
}

TEST(LoadTrainerTest, AMissingEngineIsNamed) {
  const absl::Status status = LoadTrainerFrom("/nowhere/lib.so", SpecOf("deepfm"), kShape).status();
  EXPECT_TRUE(absl::IsNotFound(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("/nowhere/lib.so"));
}

TEST(LoadTrainerTest, ALibraryThatIsNoEngineIsRefused) {
  const absl::Status status = LoadTrainerFrom("libm.so.6", SpecOf("deepfm"), kShape).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("is of version unknown, and this is 0.1.0"));
}

TEST(LoadTrainerTest, ModelsAndOptionsNobodyKnowsAreRefusedWithASuggestion) {
  EXPECT_THAT(ErrorOf(SpecOf("deepfn")), HasSubstr("did you mean 'deepfm'?"));
  JobSpec spec = SpecOf("deepfm");
  spec.model_options["hiden"] = "64";
  EXPECT_THAT(ErrorOf(spec), HasSubstr("model deepfm: model_options.hiden: this model knows"));
  EXPECT_THAT(ErrorOf(spec), HasSubstr("did you mean 'hidden'?"));
}

TEST(LoadTrainerTest, PlugInsThatAreNotThereOrNoneAreRefused) {
  EXPECT_TRUE(absl::IsNotFound(LoadTrainer(SpecOf("/nowhere/libmine.so"), kShape).status()));
  EXPECT_THAT(ErrorOf(SpecOf("/nowhere/libmine.so")), HasSubstr("No such file"));
  const std::string path = testing::TempDir() + "/libtext.so";
  std::ofstream(path) << "no library at all";
  EXPECT_THAT(ErrorOf(SpecOf(path)), HasSubstr("not a plug-in of Rubato"));
}

}  // namespace
}  // namespace rubato
