#include "rubato/adapters/posix/checkpoint_files.h"

#include <algorithm>
#include <set>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// S of "server-S.ckpt", or -1.
int64_t ServerOfFile(absl::string_view name) {
  int64_t server = -1;
  if (!absl::ConsumePrefix(&name, "server-") || !absl::ConsumeSuffix(&name, ".ckpt") ||
      !absl::SimpleAtoi(name, &server)) {
    return -1;
  }
  return server;
}

using ServerFile = std::pair<int64_t, int64_t>;  // Version, server.

// Adds what `version` of `server` is built on. What cannot be read is no reason to remove more:
// then all that is older is needed.
void AddBases(const std::string& checkpoints, int64_t version, int64_t server,
              std::set<ServerFile>* needed, std::set<ServerFile>* unclear) {
  while (needed->emplace(version, server).second) {
    const std::string path = CheckpointPath(checkpoints, version, server);
    const absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    const auto head = file.ok() ? ReadCheckpointHead({path, file->bytes()}) : file.status();
    if (!head.ok()) {
      unclear->emplace(version, server);
      return;
    }
    if (head->name.base == 0) return;
    version = head->name.base;
  }
}

}  // namespace

absl::StatusOr<MappedChain> MappedChain::Open(const std::string& checkpoints, int64_t version,
                                              int64_t server) {
  MappedChain chain;
  for (int64_t link = version; link > 0;) {
    const std::string path = CheckpointPath(checkpoints, link, server);
    const auto named = [&](const absl::Status& status) {
      if (link == version) return status;
      return absl::DataLossError(absl::StrCat("checkpoint ", version, " builds on checkpoint ",
                                              link, ": ", status.message()));
    };
    absl::StatusOr<MappedFile> file = MappedFile::Open(path);
    if (!file.ok()) return named(file.status());
    const auto head = ReadCheckpointHead({path, file->bytes()});
    if (!head.ok()) return named(head.status());
    if (link == version) chain.name_ = head->name;
    const auto bytes = static_cast<int64_t>(file->bytes().size());
    (head->name.base > 0 ? chain.delta_bytes_ : chain.full_bytes_) += bytes;
    chain.files_.push_back({path, file->bytes()});
    chain.maps_.push_back(*std::move(file));
    // One under another's number would be read as if nothing were wrong.
    if (head->name.version != link) {
      return named(absl::DataLossError(
          absl::StrCat(path, ": is of version ", head->name.version, ", not ", link)));
    }
    link = head->name.base;
  }
  std::reverse(chain.files_.begin(), chain.files_.end());
  return chain;
}

absl::Status KeepCheckpoints(const std::string& checkpoints, const std::vector<int64_t>& kept) {
  if (kept.empty()) return absl::OkStatus();
  const int64_t newest = *std::max_element(kept.begin(), kept.end());
  std::set<ServerFile> needed, unclear;
  for (const int64_t version : kept) {
    const auto names = ListDirectory(absl::StrCat(checkpoints, "/", version));
    for (const std::string& name : names.ok() ? *names : std::vector<std::string>()) {
      const int64_t server = ServerOfFile(name);
      if (server >= 0) AddBases(checkpoints, version, server, &needed, &unclear);
    }
  }
  const auto needs = [&](int64_t version, const std::string& name) {
    const int64_t server = ServerOfFile(name);
    return needed.contains({version, server}) ||
           std::any_of(unclear.begin(), unclear.end(), [&](const ServerFile& file) {
             return file.second == server && file.first > version;
           });
  };
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> folders, ListDirectory(checkpoints));
  for (const std::string& folder : folders) {
    int64_t version = 0;
    if (!absl::SimpleAtoi(folder, &version)) continue;
    if (std::find(kept.begin(), kept.end(), version) != kept.end()) continue;
    const std::string path = absl::StrCat(checkpoints, "/", folder);
    // Without its manifest a half-removed checkpoint is not taken for a whole one.
    RUBATO_RETURN_IF_ERROR(RemoveTree(path + "/manifest.json"));
    if (version > newest) continue;
    RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> names, ListDirectory(path));
    bool any = false;
    for (const std::string& name : names) {
      const bool stays = needs(version, name);
      if (!stays) RUBATO_RETURN_IF_ERROR(RemoveTree(absl::StrCat(path, "/", name)));
      any |= stays;
    }
    if (!any) RUBATO_RETURN_IF_ERROR(RemoveTree(path));
  }
  return absl::OkStatus();
}

}  // namespace rubato
