#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/schedule/policies.h"

namespace rubato {
namespace {

struct Entry {
  const char* name;
  std::unique_ptr<Policy> (*make)();
};

constexpr Entry kPolicies[] = {
    {"fifo", MakeFifo},
    {"fifo-elastic", MakeFifoElastic},
    {"edf", MakeEdf},
    {"edf-capped", MakeEdfCapped},
    {"edf-admission", MakeEdfAdmission},
    {"edf-capped-admission", MakeEdfCappedAdmission},
    {"tiresias", MakeTiresias},
    {"gandiva", MakeGandiva},
    {"themis", MakeThemis},
    {"chronus", MakeChronus},
    {"optimus", MakeOptimus},
    {"pollux", MakePollux},
    {"elasticflow", MakeElasticflow},
    {"elasticflow-artifact", MakeElasticflowArtifact},
    {"rubato", MakeRubato},
};

}  // namespace

std::vector<std::string> PolicyNames() {
  std::vector<std::string> names;
  for (const Entry& entry : kPolicies) names.push_back(entry.name);
  return names;
}

absl::StatusOr<std::unique_ptr<Policy>> MakePolicy(absl::string_view name) {
  for (const Entry& entry : kPolicies) {
    if (name == entry.name) return entry.make();
  }
  return absl::NotFoundError(
      absl::StrCat("no policy \"", name, "\"; there are ", absl::StrJoin(PolicyNames(), ", ")));
}

}  // namespace rubato
