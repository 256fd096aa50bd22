#include "rubato/cli/simulate_input.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/adapters/files/text_file.h"
#include "rubato/base/status.h"
#include "rubato/simulate/builtin_profiles.h"

namespace rubato {
namespace {

namespace fs = std::filesystem;

std::vector<fs::path> SortedEntries(const fs::path& folder) {
  std::vector<fs::path> entries;
  std::error_code error;
  for (const fs::directory_entry& entry : fs::directory_iterator(folder, error)) {
    entries.push_back(entry.path());
  }
  std::sort(entries.begin(), entries.end());
  return entries;
}

absl::Status AddProfiles(const fs::path& folder, const std::string& type, CurveBook& book,
                         int& files) {
  for (const fs::path& path : SortedEntries(folder)) {
    if (path.extension() != ".csv") continue;
    RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(path.string()));
    RUBATO_RETURN_IF_ERROR(book.AddCsv(text, path.string(), path.stem().string(), type));
    ++files;
  }
  return absl::OkStatus();
}

// The GPU types profiled under `folder`: its subfolders that hold CSV files, or itself.
absl::StatusOr<std::vector<std::string>> LoadProfiles(const std::string& folder, CurveBook& book) {
  if (!fs::is_directory(folder)) {
    return absl::NotFoundError(absl::StrCat("--profiles ", folder, " is not a folder"));
  }
  std::vector<std::string> types;
  const fs::path root = fs::path(folder).lexically_normal();
  const std::string own =
      root.has_filename() ? root.filename().string() : root.parent_path().filename().string();
  int files = 0;
  RUBATO_RETURN_IF_ERROR(AddProfiles(root, own, book, files));
  if (files > 0) types.push_back(own);
  for (const fs::path& path : SortedEntries(root)) {
    if (!fs::is_directory(path)) continue;
    int within = 0;
    RUBATO_RETURN_IF_ERROR(AddProfiles(path, path.filename().string(), book, within));
    if (within > 0) types.push_back(path.filename().string());
  }
  if (types.empty()) {
    return absl::NotFoundError(
        absl::StrCat("--profiles ", folder, " holds no MODEL.csv and no TYPE/MODEL.csv"));
  }
  return types;
}

absl::StatusOr<ClusterSpec> LoadCluster(const std::string& cluster) {
  if (!fs::exists(cluster)) {
    if (IsClusterShorthand(cluster)) return ParseClusterShorthand(cluster);
    return absl::NotFoundError(absl::StrCat(
        "--cluster ", cluster, ": cannot open such a file, and for N nodes of G GPUs it should ",
        "read like n16g8 or n16g8:A100"));
  }
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(cluster));
  return ParseClusterCsv(text, cluster);
}

}  // namespace

absl::StatusOr<SimulateInput> LoadSimulateInput(const SimulateFiles& files) {
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadTextFile(files.trace));
  RUBATO_ASSIGN_OR_RETURN(Trace trace, ParseTrace(text, files.trace));
  RUBATO_ASSIGN_OR_RETURN(ClusterSpec cluster, LoadCluster(files.cluster));
  SimulateInput input;
  input.book = std::make_unique<CurveBook>();
  std::vector<std::string> types = BuiltinGpuTypes();
  if (files.profiles.empty()) {
    *input.book = BuiltinCurves();
  } else {
    RUBATO_ASSIGN_OR_RETURN(types, LoadProfiles(files.profiles, *input.book));
  }
  std::string type = files.gpu_type;
  const bool unnamed = std::any_of(cluster.pools.begin(), cluster.pools.end(),
                                   [](const Pool& pool) { return pool.gpu_type.empty(); });
  if (unnamed && type.empty()) {
    if (types.size() > 1 && !files.profiles.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "the cluster names no GPU type and there are profiles of several; choose one with "
          "--gpu-type: ",
          absl::StrJoin(types, ", ")));
    }
    type = types.front();
  }
  for (const Pool& pool : cluster.pools) {
    const std::string& named = pool.gpu_type.empty() ? type : pool.gpu_type;
    if (std::find(types.begin(), types.end(), named) != types.end()) continue;
    return absl::InvalidArgumentError(absl::StrCat("there are no profiles of GPU type \"", named,
                                                   "\", only of ", absl::StrJoin(types, ", ")));
  }
  absl::StatusOr<Workload> bound = Bind(std::move(trace), std::move(cluster), *input.book, type);
  if (files.profiles.empty() && absl::StrContains(bound.status().message(), "no profile of")) {
    return absl::InvalidArgumentError(
        absl::StrCat(bound.status().message(),
                     " (built in; give the trace's own throughput profiles with --profiles)"));
  }
  RUBATO_ASSIGN_OR_RETURN(input.workload, std::move(bound));
  return input;
}

}  // namespace rubato
