// Whole checkpoints from their files, each a link of a chain.
#include <algorithm>
#include <map>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"
#include "rubato/params/checkpoint_reader.h"

namespace rubato {
namespace {

struct NamedFile {
  CheckpointFile file;
  CheckpointHead head;
};

// Each must be built on the one before.
absl::StatusOr<CheckpointReader::Chain> MakeChain(const std::vector<NamedFile>& files) {
  CheckpointReader::Chain chain;
  for (size_t i = 0; i < files.size(); ++i) {
    const CheckpointName& name = files[i].head.name;
    const CheckpointName before = i == 0 ? CheckpointName() : files[i - 1].head.name;
    const bool follows = name.base == before.version && name.base_segment == before.first_segment;
    if (!follows && (i > 0 || name.base > 0)) {
      return absl::DataLossError(
          name.base > 0
              ? absl::StrCat(files[i].file.path, ": built on checkpoint ", name.base,
                             i > 0 && name.base == before.version ? ", but on another writing of it"
                                                                  : ", which is not there")
              : absl::StrCat(files[i].file.path, ": a full checkpoint among deltas"));
    }
    for (const Interval& run : files[i].head.fresh.Intervals()) {
      std::fill(chain.since.begin() + run.begin, chain.since.begin() + run.end, i);
    }
    chain.heads.push_back(files[i].head);
    chain.file_bytes += files[i].file.bytes.size();
  }
  return chain;
}

absl::Status ReadChain(Shard& shard, const std::vector<NamedFile>& files,
                       const CheckpointReader::Chain& chain) {
  for (size_t i = 0; i < files.size(); ++i) {
    const CheckpointFile& file = files[i].file;
    CheckpointReader reader(shard, chain, i);
    absl::Status status =
        ReadRecords(file.path, file.bytes, [&](RecordKind kind, absl::string_view body) {
          if (file.read != nullptr) *file.read += static_cast<int64_t>(body.size());
          return reader.Add(kind, body);
        }).status();
    if (status.ok()) status = Annotate(reader.Finish(), file.path);
    if (status.ok()) continue;
    if (i + 1 == files.size()) return status;
    return Annotate(status, absl::StrCat("checkpoint ", chain.heads.back().name.version,
                                         " builds on checkpoint ", files[i].head.name.version));
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status RestoreChain(Shard& shard, const std::vector<CheckpointFile>& chain) {
  std::vector<NamedFile> files;
  for (const CheckpointFile& file : chain) {
    RUBATO_ASSIGN_OR_RETURN(CheckpointHead head, ReadCheckpointHead(file));
    files.push_back({file, std::move(head)});
  }
  if (files.empty()) return absl::DataLossError("a checkpoint of no files");
  RUBATO_ASSIGN_OR_RETURN(const CheckpointReader::Chain links, MakeChain(files));
  RUBATO_RETURN_IF_ERROR(ReadChain(shard, files, links));
  shard.BeginChanges();
  return absl::OkStatus();
}

absl::Status RestoreShard(Shard& shard, const std::vector<CheckpointFile>& files) {
  std::map<int64_t, std::map<int64_t, NamedFile>> servers;  // By version.
  for (const CheckpointFile& file : files) {
    RUBATO_ASSIGN_OR_RETURN(CheckpointHead head, ReadCheckpointHead(file));
    const CheckpointName name = head.name;
    if (!servers[name.server].try_emplace(name.version, NamedFile{file, std::move(head)}).second) {
      return absl::DataLossError(absl::StrCat(file.path, ": the same checkpoint twice"));
    }
  }
  const IntervalSet owned = PartitionsOf(shard.histories_);
  std::vector<History> histories;
  for (auto& [server, versions] : servers) {
    if (versions.rbegin()->first != servers.begin()->second.rbegin()->first) {
      return absl::DataLossError(absl::StrCat(versions.rbegin()->second.file.path,
                                              ": not of the same checkpoint as the others"));
    }
    std::vector<NamedFile> chain;
    for (auto& [version, file] : versions) chain.push_back(std::move(file));
    RUBATO_ASSIGN_OR_RETURN(CheckpointReader::Chain links, MakeChain(chain));
    links.foreign = true;
    RUBATO_RETURN_IF_ERROR(ReadChain(shard, chain, links));
    for (History& history : HistoriesOf(links.heads.back().histories, owned)) {
      histories.push_back(std::move(history));
    }
  }
  int64_t partitions = 0;
  for (const History& history : histories) partitions += history.partitions.size();
  if (partitions != owned.size() || PartitionsOf(histories) != owned) {
    return absl::DataLossError(absl::StrCat("the checkpoint's files hold ", partitions, " of the ",
                                            owned.size(), " partitions of server ",
                                            shard.options().server));
  }
  JoinHistories(histories);
  shard.SetOwned(std::move(histories));
  shard.BeginNextStep();
  return absl::OkStatus();
}

}  // namespace rubato
