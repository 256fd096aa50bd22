#include "rubato/roles/checkpoint_weights.h"

#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/checkpoint_files.h"
#include "rubato/base/bytes.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/worker/replica.h"

namespace rubato {
namespace {

constexpr int kManifestFormat = 2;

// Versions whose manifest is there, from old to new.
absl::StatusOr<std::vector<int64_t>> Versions(const JobDirectory& directory) {
  std::vector<int64_t> versions;
  RUBATO_ASSIGN_OR_RETURN(const auto names, ListDirectory(directory.checkpoints()));
  for (const std::string& name : names) {
    int64_t version = 0;
    if (!absl::SimpleAtoi(name, &version)) continue;
    if (PathExists(absl::StrCat(directory.checkpoints(), "/", name, "/manifest.json"))) {
      versions.push_back(version);
    }
  }
  std::sort(versions.begin(), versions.end());
  return versions;
}

// What one server wrote.
struct LoadedShard {
  std::string path;
  SystemMemory memory;
  std::unique_ptr<Shard> shard;
};

absl::StatusOr<std::unique_ptr<LoadedShard>> LoadShard(const CheckpointChoice& checkpoint,
                                                       int64_t server) {
  auto loaded = std::make_unique<LoadedShard>();
  RUBATO_ASSIGN_OR_RETURN(const MappedChain chain,
                          MappedChain::Open(checkpoint.checkpoints, checkpoint.version, server));
  const CheckpointName& name = chain.name();
  const std::string& path = loaded->path = chain.files().back().path;
  if (name.servers < 1 || name.servers > kPartitions) {
    return absl::DataLossError(absl::StrCat(path, ": was written by none of ", name.servers));
  }
  loaded->shard = std::make_unique<Shard>(loaded->memory,
                                          ShardOptions{.server = server, .servers = name.servers});
  RUBATO_RETURN_IF_ERROR(RestoreChain(*loaded->shard, chain.files()));
  return loaded;
}

absl::Status VisitShard(const CheckpointChoice& checkpoint, int64_t server, WeightsSink& sink) {
  RUBATO_ASSIGN_OR_RETURN(const auto loaded, LoadShard(checkpoint, server));
  // Had nothing yet.
  if (!loaded->shard->declared() && loaded->shard->histories().empty()) return absl::OkStatus();
  return Annotate(loaded->shard->VisitWeights(sink), loaded->path);
}

std::string FeaturesMark(absl::string_view features) {
  return absl::StrFormat("%016x", Checksum(features));
}

// The manifest of the checkpoint in `folder`, if it and the features beside it are as they were
// written. Those of earlier builds had neither a format nor a checksum.
absl::StatusOr<nlohmann::json> ReadManifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  nlohmann::json manifest = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  const bool early = !absl::StrContains(text, "\"format\"") && !absl::StrContains(text, "checksum");
  const Seal seal = SealOf(text);
  if (!manifest.is_object() || seal == Seal::kBroken || (seal == Seal::kNone && !early)) {
    return absl::DataLossError(absl::StrCat(path, ": is damaged: it is not as it was written"));
  }
  const std::string features = folder + "/features.yaml";
  if (manifest.contains("features") && manifest["features"].is_string()) {
    RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(features));
    if (manifest["features"] != FeaturesMark(bytes)) {
      return absl::DataLossError(
          absl::StrCat(features, ": is damaged: it is not as it was written"));
    }
  }
  return manifest;
}

}  // namespace

std::string SealManifest(absl::string_view contents, const std::string* features) {
  contents = absl::StripAsciiWhitespace(contents);
  absl::ConsumePrefix(&contents, "{");
  const std::string mark =
      features == nullptr ? "" : absl::StrCat("\"features\": \"", FeaturesMark(*features), "\", ");
  return Sealed(absl::StrCat("{\"format\": ", kManifestFormat, ", ", mark, contents));
}

absl::StatusOr<CheckpointChoice> ChooseCheckpoint(const JobDirectory& directory, int64_t version) {
  RUBATO_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, Versions(directory));
  if (versions.empty() && directory.IsOfLoneWorker()) {
    return absl::NotFoundError(absl::StrCat(
        directory.path(),
        ": has no checkpoint: this worker ended before it had a model to keep; one is written at "
        "the end of training, when the last worker stops, and before with checkpoint.every_steps. "
        "Go on from the directory of another worker of its group, or begin anew"));
  }
  if (versions.empty()) {
    return absl::NotFoundError(absl::StrCat(
        directory.path(),
        ": has no checkpoint yet; one is written at the end of training, and "
        "before with checkpoint.every_steps and when a log passes checkpoint.log_bytes"));
  }
  if (version == 0) {
    RUBATO_ASSIGN_OR_RETURN(const std::optional<int64_t> best, directory.BestVersion());
    version = best.value_or(versions.back());
  }
  CheckpointChoice choice = {.checkpoints = directory.checkpoints(), .version = version};
  if (std::find(versions.begin(), versions.end(), choice.version) == versions.end()) {
    return absl::NotFoundError(absl::StrCat(directory.path(), ": has no checkpoint ",
                                            choice.version, ", but ",
                                            absl::StrJoin(versions, ", ")));
  }
  choice.folder = absl::StrCat(directory.checkpoints(), "/", choice.version);
  const std::string path = choice.folder + "/manifest.json";
  RUBATO_ASSIGN_OR_RETURN(const nlohmann::json manifest, ReadManifest(choice.folder));
  const auto number = [&](const char* key) -> int64_t {
    return manifest.contains(key) && manifest[key].is_number_integer()
               ? manifest[key].get<int64_t>()
               : -1;
  };
  if (number("step") < 0) {
    return absl::DataLossError(absl::StrCat(path, ": is damaged"));
  }
  choice.step = number("step");
  if (manifest.contains("file") && manifest["file"].is_string()) {
    choice.file = manifest["file"].get<std::string>();
  } else if (choice.servers = number("servers"); choice.servers < 1) {
    return absl::DataLossError(absl::StrCat(path, ": says neither file nor servers"));
  }
  return choice;
}

absl::StatusOr<CheckpointChoice> ChooseSoundReplica(const JobDirectory& directory,
                                                    std::vector<std::string>* damaged) {
  RUBATO_ASSIGN_OR_RETURN(const std::vector<int64_t> versions, Versions(directory));
  for (auto version = versions.rbegin(); version != versions.rend(); ++version) {
    const absl::StatusOr<CheckpointChoice> choice = ChooseCheckpoint(directory, *version);
    absl::Status status = choice.status();
    if (choice.ok()) {
      const std::string path = absl::StrCat(choice->folder, "/", choice->file);
      const absl::StatusOr<std::string> bytes = ReadWholeFile(path);
      status = bytes.ok() ? Annotate(ReplicaWeights(*bytes).status(), path) : bytes.status();
    }
    if (status.ok()) return choice;
    damaged->emplace_back(status.message());
  }
  if (versions.empty()) return ChooseCheckpoint(directory, 0).status();
  return absl::DataLossError(
      absl::StrCat("no checkpoint can be read: ", absl::StrJoin(*damaged, "; ")));
}

absl::Status VisitCheckpoint(const CheckpointChoice& checkpoint, const JobSpec& job,
                             const Trainer& trainer, WeightsSink& sink) {
  for (int64_t server = 0; server < checkpoint.servers; ++server) {
    RUBATO_RETURN_IF_ERROR(VisitShard(checkpoint, server, sink));
  }
  if (checkpoint.servers > 0) return absl::OkStatus();
  const std::string path = absl::StrCat(checkpoint.folder, "/", checkpoint.file);
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(path));
  absl::StatusOr<std::vector<float>> weights = ReplicaWeights(bytes);
  if (!weights.ok()) return Annotate(weights.status(), path);
  const Declaration model = {.signature = trainer.signature(),
                             .optimizer = trainer.optimizer(job.optimizer),
                             .seed = job.seed};
  RUBATO_RETURN_IF_ERROR(sink.Begin(model));
  return Annotate(sink.Dense(0, *weights), path);
}

absl::StatusOr<std::vector<ServerInspection>> InspectCheckpoint(
    const CheckpointChoice& checkpoint) {
  std::vector<ServerInspection> servers;
  for (int64_t server = 0; server < checkpoint.servers; ++server) {
    RUBATO_ASSIGN_OR_RETURN(const auto loaded, LoadShard(checkpoint, server));
    loaded->shard->Inspect(&servers.emplace_back());
    servers.back().checkpoint = checkpoint.version;
    // One that left has taken what it counted along.
    if (loaded->shard->map().servers() > checkpoint.servers) servers.back().uncounted = 1;
  }
  return servers;
}

}  // namespace rubato
