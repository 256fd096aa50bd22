#include "rubato/job/contract.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "rubato/base/bytes.h"
#include "rubato/job/job_keys.h"

namespace rubato {
namespace {

constexpr int kFeatureLinesMax = 100;
constexpr size_t kFeatureLineBytesMax = 120;

bool IsPrivate(absl::string_view key) {
  if (key == "evaluate.every_steps") return false;  // All rest after the same steps.
  constexpr absl::string_view kGroups[] = {"workers.", "checkpoint.", "elastic.", "evaluate."};
  constexpr absl::string_view kKeys[] = {"name",
                                         "metrics",
                                         "model",
                                         "data.train",
                                         "data.validation",
                                         "features",
                                         "deadline",
                                         "priority",
                                         "allreduce.network",
                                         "allreduce.encrypt",
                                         "allreduce.kept_bytes"};
  const auto begins = [&](absl::string_view group) { return absl::StartsWith(key, group); };
  return std::any_of(std::begin(kGroups), std::end(kGroups), begins) ||
         std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

// Where steps grow with the workers the plan's tasks do too, so that all must know of as many; see
// PlanOf() of tasks/task_plan.h.
bool CutsThePlan(absl::string_view key, const JobSpec& spec) {
  return key == "workers.max" && spec.strategy == "allreduce" &&
         spec.allreduce.batch_rule != "constant" && spec.batches_per_task == 0;
}

}  // namespace

std::string TrainingContract(JobSpec spec) {
  // A plug-in may lie elsewhere.
  std::string lines = absl::StrCat("model: ", spec.model.substr(spec.model.rfind('/') + 1), "\n");
  for (const JobKey& key : JobKeys()) {
    if (IsPrivate(key.name) && !CutsThePlan(key.name, spec)) continue;
    absl::StrAppend(&lines, key.name, ": ", FormatJobField(key.field(spec)), "\n");
  }
  return lines;
}

std::string FeaturesContract(absl::string_view features) {
  std::string lines = absl::StrCat("features: hash ", absl::Hex(HashText(features, 0)), "\n");
  int number = 0;
  for (const absl::string_view line : absl::StrSplit(features, '\n', absl::SkipEmpty())) {
    if (++number > kFeatureLinesMax) break;
    if (line.size() > kFeatureLineBytesMax) continue;
    absl::StrAppend(&lines, "features line ", number, ": ", absl::StripAsciiWhitespace(line), "\n");
  }
  return lines;
}

}  // namespace rubato
