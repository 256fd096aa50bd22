#include "rubato/cli/recipe.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "absl/container/flat_hash_set.h"
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

// Deep models of rows of few names: rare pairs are remembered by heart, against which large batches
// help, and decay that is strong, but only if it is that of a dense Adam. Of very few rows next to
// nothing else can be learned.
constexpr int64_t kRowsForPairs = 20'000, kRowsForWeakerDecay = 100'000;

// Rows of the table of an id, in the mean.
constexpr int64_t kSeenOften = 30;

bool RemembersPairs(const RecipeInput& input, const JobSpec& spec) {
  return input.few_names && input.rows >= kRowsForPairs && spec.model != "logistic" &&
         spec.model != "fm";
}

int64_t BatchForPairs(int64_t rows) {
  if (rows < 50'000) return 512;
  return rows < kRowsForWeakerDecay ? 1024 : 2048;
}

// Such a job has some hundred steps a pass, and weights that all move in every one: a gradient that
// is one step old shows. So batches are parts of a step, which is the mean of these, and how many
// workers compute them makes no difference at all. With fewer rows the parts would be so small that
// a norm of them is noise; with more it does not show, and speed counts.
constexpr int64_t kRowsForAsync = 1'000'000;
int64_t PartsOfStep(int64_t rows, bool pairs) {
  return pairs && rows >= kRowsForWeakerDecay && rows < kRowsForAsync ? 4 : 1;
}

int64_t BatchFor(int64_t rows) {
  if (rows < 20'000) return 128;
  if (rows < kManyRows) return 256;
  if (rows < 2'000'000) return 512;
  return rows < 10'000'000 ? 1024 : 4096;
}

// Passes where nothing says when to stop. Of few rows eight passes are so few steps that scores
// hardly differ yet, and some hundred so many that a deep model is sure of what it knows by heart.
// Best are some 24 steps where a pass is one, and 64 where it is eight: as its root.
int64_t PassesFor(int64_t rows, int64_t batch_size) {
  constexpr int64_t kFewest = 8;
  constexpr double kOfOneStep = 24;
  if (rows >= 1'000'000) return 1;
  if (rows >= 20'000) return rows < 100'000 ? 4 : 2;
  const double steps = std::ceil(static_cast<double>(rows) / static_cast<double>(batch_size));
  return std::max(kFewest, static_cast<int64_t>(kOfOneStep / std::sqrt(steps)));
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
void ChooseOptions(const RecipeInput& input, bool pairs, JobSpec* spec) {
  const int64_t rows = input.rows;
  if (IsPlugin(spec->model)) return;  // It has options of its own.
  if (spec->model == "transformer") {
    spec->model_options = {{"dropout", "0.1"}};
    return;
  }
  const bool linear = spec->model == "logistic";
  const bool deep = !linear && spec->model != "fm";
  const bool many = rows >= kManyRows || pairs;
  spec->model_options = {{"use_dense", deep && many && !input.bare_numbers ? "false" : "true"}};
  if (!linear) spec->model_options.insert({{"dim", "16"}, {"l2", "0.001"}});
  if (deep) spec->model_options.insert({"dropout", "0.1"});
  if (deep && many) spec->model_options.insert({"batch_norm", "true"});
  if (pairs) {
    spec->model_options["l2"] = rows < kRowsForWeakerDecay ? "0.1" : "0.03";
    spec->model_options["dropout"] = "0.2";
  }
}

bool IsOfNames(const FeatureSpec& f) {
  return f.transform == "merge_rare" || f.transform == "lookup" || f.transform == "hash";
}

// A few integers, each with a bin of its own: the days of a week are names as well. Ages may have a
// bin each, too, and are none: so few are meant as any number of that many rows has bins.
bool TellsAllApart(const FeatureSpec& f, int64_t rows) {
  const int64_t few = std::clamp<int64_t>(rows / 500, 8, 64);
  if (static_cast<int64_t>(f.boundaries.size()) >= few) return false;
  if (f.transform != "discretize" || f.columns.size() != 1 || f.boundaries.empty()) return false;
  for (size_t i = 0; i < f.boundaries.size(); ++i) {
    if (f.boundaries[i] != f.boundaries[0] + static_cast<double>(i)) return false;
  }
  return true;
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

std::string OneFieldText(const std::string& model, const FeaturesSpec& features) {
  std::vector<const FeatureSpec*> fields;
  for (const FeatureSpec& f : features.features) {
    if (!MakesNumber(f.transform)) fields.push_back(&f);
  }
  if (fields.size() != 1) return "";
  // A factorization machine multiplies the values of a sum with each other, too.
  const bool has_pairs = fields[0]->is_bag() && fields[0]->combiner == "sum";
  const bool is_fm = model == "fm" || model == "deepfm";
  if (model != "xdeepfm" && model != "autoint" && (!is_fm || has_pairs)) return "";
  return absl::StrCat(model, " learns what fields mean together, and '", fields[0]->name,
                      "' is the only one", has_pairs ? ": deepfm finds that among its values" : "");
}

RecipeInput RecipeInputOf(int64_t rows, const FeaturesSpec& features) {
  constexpr size_t kFewNames = 11;
  size_t fields = 0;
  absl::flat_hash_set<absl::string_view> coded, numbers, binned;
  bool names = false;
  int64_t ids = 0;
  for (const FeatureSpec& f : features.features) {
    const size_t written = f.vocabulary.size() + f.boundaries.size();
    const int64_t hashed = f.buckets > 0 ? std::min(f.buckets, rows) : rows;
    ids += f.transform == "hash" ? hashed : static_cast<int64_t>(written);
    (MakesNumber(f.transform) ? numbers : binned).insert(f.columns.begin(), f.columns.end());
    if (MakesNumber(f.transform)) continue;
    ++fields;
    if (TellsAllApart(f, rows)) coded.insert(f.columns[0]);
    names |= IsOfNames(f);
  }
  const bool only =
      std::all_of(features.features.begin(), features.features.end(), [&](const FeatureSpec& f) {
        return IsOfNames(f) || (f.columns.size() == 1 && coded.contains(f.columns[0]));
      });
  const bool bare = std::any_of(numbers.begin(), numbers.end(),
                                [&](absl::string_view column) { return !binned.contains(column); });
  return {.rows = rows,
          .few_names = names && only && fields <= kFewNames,
          .ids = ids,
          .bare_numbers = bare};
}

void ChooseRecipe(const RecipeInput& input, JobSpec* spec) {
  const int64_t rows = input.rows;
  const bool pairs = RemembersPairs(input, *spec);
  spec->batch_size = pairs ? std::max(BatchFor(rows), BatchForPairs(rows)) : BatchFor(rows);
  spec->optimizer.name = pairs ? "dense_adam" : "adam";
  spec->optimizer.learning_rate = spec->model == "logistic" ? 0.01 : 0.001;
  // In a short job gradients of old weights show; there is little speed to be had for them.
  if (rows < kRowsForAsync) spec->max_inflight = 0;
  const int64_t parts = PartsOfStep(rows, pairs);
  if (parts > 1) {
    spec->mode = "sync";
    spec->rounds.gradients = parts;
    spec->batch_size /= parts;
  }
  ChooseOptions(input, pairs, spec);
  // A factorization machine has nothing but its rows. Where each is seen often there is little to
  // protect it from, and the pull that rare ones need only makes it worse than logistic regression.
  if (spec->model == "fm" && input.ids > 0 && rows >= kSeenOften * input.ids) {
    spec->model_options["l2"] = "0.0001";
  }
  if (!spec->data.has_validation()) {
    spec->epochs = PassesFor(rows, parts * spec->batch_size);
    return;
  }
  spec->epochs = rows < 1'000'000 ? 100 : 20;  // At most: it stops when there is no gain.
  const int64_t looks = pairs ? 1 : LooksFor(rows);
  const int64_t step_rows = parts * spec->batch_size;
  const int64_t epoch_steps = (rows + step_rows - 1) / step_rows;
  spec->evaluate.every_steps = parts * ((epoch_steps + looks - 1) / looks);
  // A linear model learns by small steps, of which a few in a row bring no gain: where a pass is
  // one, it would stop before it has begun. A deep one knows few rows by heart by then.
  constexpr int64_t kStepsBetween = 12;
  if (spec->model == "logistic") {
    spec->evaluate.every_steps = std::max(spec->evaluate.every_steps, kStepsBetween);
  }
  spec->evaluate.lower_rate = 0.1;
  spec->evaluate.stop_after_stalls = 2;
  spec->evaluate.forgive_stalls = 2;
}

}  // namespace rubato
