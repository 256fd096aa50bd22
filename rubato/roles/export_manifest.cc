#include "rubato/roles/export_manifest.h"

#include <filesystem>
#include <nlohmann/json.hpp>

#include "absl/algorithm/container.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/base/bytes.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/base/version.h"
#include "rubato/roles/servable.h"

namespace rubato {
namespace {

constexpr int kUnsealedFormat = 2;  // Of earlier builds: without a checksum of its own.

struct FileMark {
  int64_t bytes = 0;
  std::string checksum;
  friend bool operator==(const FileMark&, const FileMark&) = default;
};

absl::StatusOr<FileMark> MarkOf(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(path));
  return FileMark{.bytes = static_cast<int64_t>(file.bytes().size()),
                  .checksum = absl::StrFormat("%016x", Checksum(file.bytes()))};
}

absl::Status CheckFiles(const std::string& folder, const nlohmann::json& files) {
  for (const auto& [name, mark] : files.items()) {
    const std::string path = absl::StrCat(folder, "/", name);
    RUBATO_ASSIGN_OR_RETURN(const FileMark found, MarkOf(path));
    if (found == FileMark{mark.at("bytes").get<int64_t>(), mark.at("checksum")}) continue;
    return absl::DataLossError(
        absl::StrCat(path, ": is damaged: it is not the file that was exported"));
  }
  return absl::OkStatus();
}

absl::Status CheckVersion(const std::string& path, const nlohmann::json& manifest) {
  const int64_t format = manifest.at("format").get<int64_t>();
  const std::string rubato = manifest.at("rubato");
  const bool known = format == kExportFormat || format == kUnsealedFormat;
  if (known && rubato == kVersion) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path, ": an export of format ", format, " by rubato ", rubato,
                   ", and this is rubato ", kVersion, ", which reads its own, of format ",
                   kExportFormat, "; export the job again with `rubato export`"));
}

}  // namespace

absl::StatusOr<int64_t> WriteExportManifest(const std::string& folder,
                                            const ExportManifest& manifest,
                                            const std::vector<std::string>& files) {
  nlohmann::ordered_json marks = nlohmann::ordered_json::object();
  int64_t bytes = 0;
  for (const std::string& file : files) {
    RUBATO_ASSIGN_OR_RETURN(const FileMark mark, MarkOf(absl::StrCat(folder, "/", file)));
    marks[file] = {{"bytes", mark.bytes}, {"checksum", mark.checksum}};
    bytes += mark.bytes;
  }
  const nlohmann::ordered_json document = {{"format", kExportFormat},
                                           {"rubato", kVersion},
                                           {"job", manifest.job},
                                           {"model", manifest.model},
                                           {"checkpoint", manifest.checkpoint},
                                           {"step", manifest.step},
                                           {"torchscript", manifest.script},
                                           {"no_torchscript", manifest.no_script},
                                           {"files", marks}};
  const std::string text = Sealed(JsonText(document, 1));
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(folder + "/manifest.json", text));
  return bytes + static_cast<int64_t>(text.size());
}

absl::StatusOr<ExportManifest> ReadExportManifest(const std::string& folder) {
  const std::string path = folder + "/manifest.json";
  RUBATO_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(path));
  try {
    const nlohmann::json document = nlohmann::json::parse(text);
    RUBATO_RETURN_IF_ERROR(CheckVersion(path, document));
    const Seal seal = SealOf(text);
    if (seal == Seal::kBroken ||
        (seal == Seal::kNone && document.at("format") != kUnsealedFormat)) {
      return absl::DataLossError(absl::StrCat(path, ": is damaged: it is not as it was written"));
    }
    RUBATO_RETURN_IF_ERROR(CheckFiles(folder, document.at("files")));
    return ExportManifest{.checkpoint = document.at("checkpoint"),
                          .step = document.at("step"),
                          .job = document.at("job"),
                          .model = document.at("model"),
                          .script = document.at("torchscript"),
                          .no_script = document.at("no_torchscript")};
  } catch (const nlohmann::json::exception& error) {
    return absl::DataLossError(absl::StrCat(path, ": is damaged: ", error.what()));
  }
}

bool IsExport(const std::string& folder) {
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(folder);
  if (!names.ok()) return false;
  const auto has = [&](absl::string_view name) { return absl::c_linear_search(*names, name); };
  return has("manifest.json") && has("weights.bin") && has("schema") &&
         absl::c_none_of(*names, [&](const std::string& name) {
           return std::filesystem::is_directory(absl::StrCat(folder, "/", name));
         });
}

}  // namespace rubato
