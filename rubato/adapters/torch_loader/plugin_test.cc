// examples/plugin, built against an installed Rubato by the fixtures in CMakeLists.txt, as a user
// would: loaded by its path, trained, and refused when it was built for another version.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <fstream>
#include <sstream>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch_loader/load_trainer.h"
#include "rubato/base/rng.h"
#include "rubato/worker/local_run.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

JobSpec SpecOf(const std::string& model) {
  JobSpec spec;
  spec.model = model;
  spec.model_options = {{"dim", "4"}};
  return spec;
}

// Users like the items of their own parity.
Batch Clicks(const RecordParser& parser, Rng& rng) {
  Batch batch;
  for (int i = 0; i < 64; ++i) {
    const uint64_t user = rng.Below(30), item = rng.Below(30);
    const bool click = user % 2 == item % 2;
    EXPECT_TRUE(parser.Parse(absl::StrCat(click ? 1 : 0, " u", user, " de i", item), &batch).ok());
  }
  return batch;
}

TEST(PluginTest, TrainsUntilTheLossFalls) {
  const auto loaded = LoadTrainer(SpecOf(RUBATO_PLUGIN), {});
  ASSERT_TRUE(loaded.ok()) << loaded.status();
  Trainer& trainer = **loaded;
  ASSERT_EQ(trainer.signature().tables.size(), 2u);
  EXPECT_EQ(trainer.signature().tables[0].name, "users");
  EXPECT_EQ(trainer.signature().tables[0].dim, 4);
  ASSERT_NE(trainer.parser(), nullptr);

  LocalRun run(trainer, {.optimizer = {.learning_rate = 0.1}, .id_columns = 3});
  Rng rng(5);
  double first = 0, last = 0;
  for (int step = 0; step < 400; ++step) {
    last = run.Step(Clicks(*trainer.parser(), rng)).value();
    if (step == 0) first = last;
  }
  EXPECT_NEAR(first, 0.69, 0.05);
  EXPECT_LT(last, 0.2);
  EXPECT_EQ(run.rows(), 30 + 1 + 30);
}

TEST(PluginTest, OneBuiltForAnotherVersionIsRefusedBeforeItRuns) {
  std::stringstream bytes;
  bytes << std::ifstream(RUBATO_PLUGIN, std::ios::binary).rdbuf();
  std::string library = bytes.str();
  const std::string stamp = "rubato-model-stamp:rubato 0.1.0";
  const size_t at = library.find(stamp);
  ASSERT_NE(at, std::string::npos);
  library.replace(at, stamp.size(), "rubato-model-stamp:rubato 0.0.9");
  const std::string path = testing::TempDir() + "/libold.so";
  std::ofstream(path, std::ios::binary) << library;

  const absl::Status status = LoadTrainer(SpecOf(path), {}).status();
  EXPECT_TRUE(absl::IsFailedPrecondition(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("was built for rubato 0.0.9"));
  EXPECT_THAT(std::string(status.message()), HasSubstr("this is rubato 0.1.0"));
}

}  // namespace
}  // namespace rubato
