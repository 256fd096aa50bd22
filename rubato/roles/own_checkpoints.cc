#include "rubato/roles/own_checkpoints.h"

#include <algorithm>
#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/roles/checkpoint_weights.h"

namespace rubato {

OwnCheckpoints::OwnCheckpoints(JobDirectory directory, const CheckpointSpec& spec)
    : directory_(std::move(directory)), spec_(spec) {
  const auto names = ListDirectory(directory_.checkpoints());
  if (!names.ok()) return;
  for (const std::string& name : *names) {
    int64_t version = 0;
    if (!absl::SimpleAtoi(name, &version)) continue;
    begun_ = std::max(begun_, version);
    const std::string folder = absl::StrCat(directory_.checkpoints(), "/", version);
    if (PathExists(folder + "/manifest.json")) complete_ = std::max(complete_, version);
  }
}

int64_t OwnCheckpoints::Due(int64_t steps, bool writes) {
  if (spec_.every_steps == 0) return 0;
  const int64_t intervals = steps / spec_.every_steps;
  const bool due = intervals_ >= 0 && intervals > intervals_;
  intervals_ = std::max(intervals_, intervals);
  return due && writes ? Next() : 0;
}

absl::Status OwnCheckpoints::Complete(const ReplicaSaver::Saved& saved) {
  const std::string folder = absl::StrCat(directory_.checkpoints(), "/", saved.version);
  // Weights mean nothing without the features they were trained on.
  const absl::StatusOr<std::string> features = ReadWholeFile(directory_.features());
  if (features.ok()) {
    RUBATO_RETURN_IF_ERROR(WriteFileAtomically(folder + "/features.yaml", *features));
  }
  const nlohmann::json manifest = {{"version", saved.version},
                                   {"step", saved.steps},
                                   {"records", saved.records},
                                   {"file", kFile}};
  RUBATO_RETURN_IF_ERROR(
      WriteFileAtomically(folder + "/manifest.json",
                          SealManifest(JsonText(manifest), features.ok() ? &*features : nullptr)));
  complete_ = std::max(complete_, saved.version);
  RUBATO_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory_.checkpoints()));
  std::set<int64_t, std::greater<>> versions;  // From new to old.
  for (const std::string& name : names) {
    int64_t version = 0;
    if (absl::SimpleAtoi(name, &version) && version <= saved.version) versions.insert(version);
  }
  int64_t kept = 0;
  for (const int64_t version : versions) {
    const std::string old = absl::StrCat(directory_.checkpoints(), "/", version);
    // One that could not be written does not count.
    if (PathExists(old + "/manifest.json") && kept++ < std::max<int64_t>(spec_.keep, 1)) continue;
    // Without its manifest a half-removed checkpoint is not taken for a whole one.
    RUBATO_RETURN_IF_ERROR(RemoveTree(old + "/manifest.json"));
    RUBATO_RETURN_IF_ERROR(RemoveTree(old));
  }
  return absl::OkStatus();
}

absl::Status OwnCheckpoints::Save(const Replica& replica) {
  const ReplicaSaver::Saved saved = {Next(), replica.steps(), replica.records()};
  const std::string folder = absl::StrCat(directory_.checkpoints(), "/", saved.version);
  RUBATO_RETURN_IF_ERROR(MakeDirectories(folder));
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", kFile), replica.Encode()));
  return Complete(saved);
}

}  // namespace rubato
