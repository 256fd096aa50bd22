#include "rubato/cli/recipe.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/job/plugin_name.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

// From here on there are enough steps for batch norm to pay, and enough rows for the bins of a
// number to say all that it says. With fewer both cost: a deep model then gains by the plain number
// and loses by the norm's noise.
constexpr int64_t kManyRows = 200'000;

int64_t BatchFor(int64_t rows) {
  if (rows < 20'000) return 128;
  if (rows < kManyRows) return 256;
  if (rows < 2'000'000) return 512;
  return rows < 10'000'000 ? 1024 : 4096;
}

// Evaluations a pass. Where rows are many sorts of things, deep models are at their best after one
// to three passes, and one look a pass comes too late; too many looks differ by chance more than by
// learning, and the rate falls too early.
int64_t LooksFor(int64_t rows) {
  if (rows < 50'000) return 1;
  return rows < kManyRows ? 4 : 2;
}

// Numbers lie between 0 and about 15, vectors start near 0: side by side, numbers alone decide for
// a long time which units of a perceptron are on, and what fields do together is not found. So a
// perceptron reads both only where rows are few, and its layers are normalized where they are many.
void ChooseOptions(int64_t rows, JobSpec* spec) {
  const bool linear = spec->model == "logistic";
  const bool deep = !linear && spec->model != "fm";
  const bool many = rows >= kManyRows;
  spec->model_options = {{"use_dense", deep && many ? "false" : "true"}};
  if (!linear) spec->model_options.insert({{"dim", "16"}, {"l2", "0.001"}});
  if (deep) spec->model_options.insert({"dropout", "0.1"});
  if (deep && many) spec->model_options.insert({"batch_norm", "true"});
}

}  // namespace

absl::Status CheckModel(const std::string& model) {
  static const std::vector<std::string> kModels = {"logistic", "fm",         "wide_deep", "deepfm",
                                                   "dcn",      "dcnv2",      "xdeepfm",   "autoint",
                                                   "finalmlp", "transformer"};
  if (IsPlugin(model) || std::find(kModels.begin(), kModels.end(), model) != kModels.end()) {
    return absl::OkStatus();
  }
  return absl::InvalidArgumentError(absl::StrCat("--model ", model, ": of tables learn ",
                                                 absl::StrJoin(kModels, ", "), " and plug-ins",
                                                 DidYouMean(model, kModels)));
}

void ChooseRecipe(int64_t rows, JobSpec* spec) {
  spec->batch_size = BatchFor(rows);
  spec->optimizer.name = "adam";
  spec->optimizer.learning_rate = spec->model == "logistic" ? 0.01 : 0.001;
  // In a short job gradients of old weights show; there is little speed to be had for them.
  if (rows < 1'000'000) spec->max_inflight = 0;
  ChooseOptions(rows, spec);
  if (spec->data.validation.empty()) {
    spec->epochs = rows < 20'000 ? 8 : rows < 100'000 ? 4 : rows < 1'000'000 ? 2 : 1;
    return;
  }
  spec->epochs = rows < 1'000'000 ? 100 : 20;  // At most: it stops when there is no gain.
  const int64_t looks = LooksFor(rows);
  const int64_t epoch_steps = (rows + spec->batch_size - 1) / spec->batch_size;
  spec->evaluate.every_steps = (epoch_steps + looks - 1) / looks;
  spec->evaluate.lower_rate = 0.1;
  spec->evaluate.stop_after_stalls = 2;
}

}  // namespace rubato
