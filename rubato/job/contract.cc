#include "rubato/job/contract.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/job/job_keys.h"

namespace rubato {
namespace {

bool IsPrivate(absl::string_view key) {
  constexpr absl::string_view kGroups[] = {"workers.", "checkpoint.", "elastic.", "evaluate."};
  constexpr absl::string_view kKeys[] = {"name",     "model",    "data.train", "data.validation",
                                         "features", "deadline", "priority",   "allreduce.network"};
  const auto begins = [&](absl::string_view group) { return absl::StartsWith(key, group); };
  return std::any_of(std::begin(kGroups), std::end(kGroups), begins) ||
         std::find(std::begin(kKeys), std::end(kKeys), key) != std::end(kKeys);
}

}  // namespace

std::string TrainingContract(JobSpec spec) {
  // A plug-in may lie elsewhere.
  std::string lines = absl::StrCat("model: ", spec.model.substr(spec.model.rfind('/') + 1), "\n");
  for (const JobKey& key : JobKeys()) {
    if (IsPrivate(key.name)) continue;
    absl::StrAppend(&lines, key.name, ": ", FormatJobField(key.field(spec)), "\n");
  }
  return lines;
}

}  // namespace rubato
