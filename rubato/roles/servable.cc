#include "rubato/roles/servable.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/params_server_files.h"
#include "rubato/adapters/sql/sql_uri.h"
#include "rubato/adapters/torch_loader/load_trainer.h"
#include "rubato/adapters/yaml/features_file.h"
#include "rubato/adapters/yaml/job_file.h"
#include "rubato/base/status.h"
#include "rubato/base/version.h"
#include "rubato/data/record_index.h"
#include "rubato/features/feature_parser.h"
#include "rubato/roles/checkpoint_weights.h"
#include "rubato/roles/export_manifest.h"
#include "rubato/roles/job_directory.h"

namespace rubato {
namespace {

// Features and model for the columns in `schema`.
absl::Status LoadModel(Servable* servable) {
  if (!servable->job.features.empty()) {
    RUBATO_ASSIGN_OR_RETURN(servable->features, LoadFeaturesFile(servable->job.features));
  }
  RUBATO_ASSIGN_OR_RETURN(const auto parser,
                          servable->MakeParser(servable->schema, /*has_labels=*/true));
  RUBATO_ASSIGN_OR_RETURN(servable->trainer, LoadTrainer(servable->job, parser->shape()));
  servable->weights = std::make_unique<FrozenWeights>();
  return absl::OkStatus();
}

// The columns that the model's batches have.
absl::StatusOr<BatchShape> ShapeOf(const Servable& servable) {
  RUBATO_ASSIGN_OR_RETURN(const auto parser,
                          servable.MakeParser(servable.schema, /*has_labels=*/true));
  return parser != nullptr ? parser->shape() : servable.trainer->parser()->shape();
}

absl::StatusOr<std::unique_ptr<FrozenModel>> Frozen(const Servable& servable, Trainer& trainer) {
  RUBATO_ASSIGN_OR_RETURN(const BatchShape shape, ShapeOf(servable));
  RUBATO_ASSIGN_OR_RETURN(
      FrozenModel model,
      FrozenModel::Make(trainer, *servable.weights, static_cast<int64_t>(shape.ids.size())));
  return std::make_unique<FrozenModel>(std::move(model));
}

absl::Status Freeze(Servable* servable) {
  RUBATO_RETURN_IF_ERROR(servable->weights->Finish());
  RUBATO_ASSIGN_OR_RETURN(servable->model, Frozen(*servable, *servable->trainer));
  return absl::OkStatus();
}

absl::StatusOr<std::string> SchemaAt(const std::string& index_path) {
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(index_path));
  absl::StatusOr<RecordIndex> index = RecordIndex::Decode(bytes);
  if (!index.ok()) return Annotate(index.status(), index_path);
  return index->schema;
}

// All but the weights.
absl::StatusOr<Servable> OpenJob(const JobDirectory& directory, const CheckpointChoice& choice) {
  Servable servable = {
      .checkpoint = choice.version, .step = choice.step, .no_script = "it comes with an export"};
  RUBATO_ASSIGN_OR_RETURN(servable.job, LoadJobFile(directory.job_file()));
  if (!servable.job.features.empty()) {
    servable.job.features = choice.folder + "/features.yaml";
    if (!PathExists(servable.job.features)) servable.job.features = directory.features();
  }
  RUBATO_ASSIGN_OR_RETURN(servable.schema, SchemaAt(directory.train_index()));
  RUBATO_RETURN_IF_ERROR(LoadModel(&servable));
  return servable;
}

absl::StatusOr<Servable> OpenExport(const std::string& path) {
  RUBATO_ASSIGN_OR_RETURN(const ExportManifest manifest, ReadExportManifest(path));
  Servable servable = {.checkpoint = manifest.checkpoint,
                       .step = manifest.step,
                       .script = manifest.script.empty() ? "" : path + "/" + manifest.script,
                       .no_script = manifest.no_script};
  RUBATO_ASSIGN_OR_RETURN(servable.schema, ReadWholeFile(path + "/schema"));
  RUBATO_ASSIGN_OR_RETURN(servable.job, LoadJobFile(path + "/job.yaml"));
  RUBATO_RETURN_IF_ERROR(LoadModel(&servable));
  const std::string weights = path + "/weights.bin";
  RUBATO_ASSIGN_OR_RETURN(const MappedFile file, MappedFile::Open(weights));
  RUBATO_RETURN_IF_ERROR(ReadWeights(weights, file.bytes(), *servable.weights));
  RUBATO_RETURN_IF_ERROR(Annotate(Freeze(&servable), path));
  return servable;
}

// Writes weights, and keeps the dense ones.
class WriterThatKeepsDense : public WeightsSink {
 public:
  WriterThatKeepsDense(WeightsWriter& writer, int64_t dense)
      : writer_(writer), dense_(static_cast<size_t>(dense)) {}
  absl::Status Begin(const Declaration& model) override { return writer_.Begin(model); }
  absl::Status Dense(int64_t offset, absl::Span<const float> weights) override {
    RUBATO_RETURN_IF_ERROR(writer_.Dense(offset, weights));
    RUBATO_CHECK(static_cast<size_t>(offset) + weights.size() <= dense_.size());
    std::copy(weights.begin(), weights.end(), dense_.begin() + offset);
    return absl::OkStatus();
  }
  absl::Status Rows(size_t table, absl::Span<const uint64_t> ids,
                    absl::Span<const float> rows) override {
    return writer_.Rows(table, ids, rows);
  }
  const std::vector<float>& dense() const { return dense_; }

 private:
  WeightsWriter& writer_;
  std::vector<float> dense_;
};

// The checkpoint's files in `folder`, all but the manifest.
absl::StatusOr<std::vector<std::string>> WriteParts(const ExportOptions& options,
                                                    const CheckpointChoice& choice,
                                                    Servable& servable, const std::string& folder,
                                                    Exported* exported) {
  std::vector<std::string> files = {"job.yaml", "schema", "weights.bin"};
  RUBATO_RETURN_IF_ERROR(WriteFileAtomically(folder + "/schema", servable.schema));
  JobSpec job = servable.job;
  if (servable.features.has_value()) {
    job.features = "features.yaml";
    files.push_back(job.features);
    RUBATO_RETURN_IF_ERROR(
        WriteFileAtomically(folder + "/features.yaml", FormatFeaturesText(*servable.features)));
  }
  if (const size_t slash = job.model.rfind('/'); slash != std::string::npos) {
    RUBATO_ASSIGN_OR_RETURN(const std::string plugin, ReadWholeFile(job.model));
    job.model = job.model.substr(slash + 1);
    files.push_back(job.model);
    RUBATO_RETURN_IF_ERROR(WriteFileAtomically(absl::StrCat(folder, "/", job.model), plugin));
  }
  // Exports are handed on.
  for (auto* paths : {&job.data.train, &job.data.validation}) {
    for (std::string& path : *paths) path = WithoutPassword(path);
  }
  RUBATO_RETURN_IF_ERROR(WriteJobFile(folder + "/job.yaml", job));
  RUBATO_ASSIGN_OR_RETURN(const auto file, RecordFile::Create(folder + "/weights.bin"));
  WeightsWriter writer(*file);
  WriterThatKeepsDense keeper(writer, servable.trainer->signature().dense_size);
  RUBATO_RETURN_IF_ERROR(VisitCheckpoint(choice, servable.job, *servable.trainer, keeper));
  RUBATO_RETURN_IF_ERROR(Annotate(writer.Finish(), choice.folder));
  RUBATO_RETURN_IF_ERROR(file->Sync());
  for (const int64_t rows : writer.rows()) exported->rows += rows;
  // A model that TorchScript cannot hold is exported all the same: `rubato score` has its code.
  const absl::Status script = servable.trainer->SaveScript(keeper.dense(), folder + "/model.pt");
  if (script.ok()) {
    files.push_back("model.pt");
  } else {
    exported->no_script = std::string(script.message());
    RUBATO_RETURN_IF_ERROR(RemoveTree(folder + "/model.pt"));
  }
  return files;
}

// All files of an export, in `folder`.
absl::StatusOr<Exported> FillFolder(const ExportOptions& options, const CheckpointChoice& choice,
                                    Servable& servable, const std::string& folder) {
  RUBATO_RETURN_IF_ERROR(MakeDirectories(folder));
  Exported exported = {.checkpoint = choice.version, .step = choice.step};
  RUBATO_ASSIGN_OR_RETURN(const std::vector<std::string> files,
                          WriteParts(options, choice, servable, folder, &exported));
  const ExportManifest manifest = {.checkpoint = choice.version,
                                   .step = choice.step,
                                   .job = servable.job.name,
                                   .model = servable.job.model,
                                   .script = exported.no_script.empty() ? "model.pt" : "",
                                   .no_script = exported.no_script};
  RUBATO_ASSIGN_OR_RETURN(exported.bytes, WriteExportManifest(folder, manifest, files));
  return exported;
}

// What --force removes is an export or nothing: never a job, nor a folder with one in it.
absl::Status CheckReplaceable(const std::string& path, bool may_replace) {
  if (!PathExists(path)) return absl::OkStatus();
  if (!may_replace) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": is there already; --force replaces an export"));
  }
  const absl::StatusOr<std::vector<std::string>> names = ListDirectory(path);
  if ((names.ok() && names->empty()) || IsExport(path)) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path,
                   ": is no export, which is all that --force replaces; remove it first, or "
                   "give --out another name"));
}

}  // namespace

absl::StatusOr<std::unique_ptr<const RecordParser>> Servable::MakeParser(const DataSpec& data,
                                                                         const std::string& columns,
                                                                         bool has_labels) const {
  if (trainer != nullptr && trainer->parser() != nullptr) {
    return std::unique_ptr<const RecordParser>();
  }
  // Features go by the names of columns: whatever has these gives the model's batches.
  if (features.has_value()) {
    RUBATO_ASSIGN_OR_RETURN(const NamedData named, Named(data, columns, has_labels));
    return FeatureParser::Create(named.data, named.schema, *features, has_labels,
                                 has_labels ? job.evaluate.group : "");
  }
  if (trainer == nullptr) return rubato::MakeParser(data, columns);
  return MakeParserLike({job.data, schema}, {data, columns}, has_labels);
}

absl::StatusOr<NamedData> Servable::Named(const DataSpec& data, const std::string& columns,
                                          bool has_labels) const {
  const bool is_in_features = features.has_value() && !features->label.empty();
  return NameAsTrained({job.data, schema}, {data, columns},
                       is_in_features ? features->label : job.data.label, has_labels);
}

absl::Status Servable::UseScript() {
  if (script.empty()) {
    return absl::FailedPreconditionError(absl::StrCat("there is no model.pt: ", no_script));
  }
  uses_script = true;
  return trainer->UseScript(script);
}

absl::StatusOr<Scorer> MakeScorer(const Servable& servable) {
  Scorer scorer;
  RUBATO_ASSIGN_OR_RETURN(const BatchShape shape, ShapeOf(servable));
  RUBATO_ASSIGN_OR_RETURN(scorer.trainer, LoadTrainer(servable.job, shape));
  RUBATO_ASSIGN_OR_RETURN(scorer.model, Frozen(servable, *scorer.trainer));
  if (servable.uses_script) {
    RUBATO_RETURN_IF_ERROR(scorer.trainer->UseScript(servable.script));
  }
  return scorer;
}

absl::StatusOr<Servable> OpenServable(const std::string& path, int64_t version) {
  RUBATO_RETURN_IF_ERROR(CheckMayLook(path + "/manifest.json"));
  if (PathExists(path + "/manifest.json")) {
    if (version == 0) return OpenExport(path);
    return absl::InvalidArgumentError(
        absl::StrCat(path, ": is an export, of one checkpoint; --from goes with a job directory"));
  }
  if (!PathExists(path + "/job.yaml")) {
    return absl::NotFoundError(absl::StrCat(
        path, ": is neither a job directory (no job.yaml) nor an export (no manifest.json)"));
  }
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(path));
  RUBATO_ASSIGN_OR_RETURN(const CheckpointChoice choice, ChooseCheckpoint(directory, version));
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenJob(directory, choice));
  RUBATO_RETURN_IF_ERROR(
      VisitCheckpoint(choice, servable.job, *servable.trainer, *servable.weights));
  RUBATO_RETURN_IF_ERROR(Annotate(Freeze(&servable), choice.folder));
  return servable;
}

absl::StatusOr<Exported> WriteExport(const ExportOptions& options) {
  absl::string_view out = options.out;
  while (out.size() > 1 && absl::ConsumeSuffix(&out, "/")) continue;
  // The one that is replaced lies there until the new one is in its place.
  const std::string folder = absl::StrCat(out, ".partial"), old = absl::StrCat(out, ".replaced");
  RUBATO_RETURN_IF_ERROR(CheckReplaceable(std::string(out), options.replace));
  RUBATO_RETURN_IF_ERROR(CheckReplaceable(old, /*may_replace=*/true));
  RUBATO_ASSIGN_OR_RETURN(const JobDirectory directory, JobDirectory::Open(options.job_dir));
  RUBATO_ASSIGN_OR_RETURN(const CheckpointChoice choice,
                          ChooseCheckpoint(directory, options.version));
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenJob(directory, choice));
  RUBATO_RETURN_IF_ERROR(RemoveTree(folder));
  absl::StatusOr<Exported> exported = FillFolder(options, choice, servable, folder);
  if (!exported.ok()) {
    (void)RemoveTree(folder);  // A full disk can do without half an export.
    return exported;
  }
  if (PathExists(std::string(out))) {
    RUBATO_RETURN_IF_ERROR(RemoveTree(old));
    RUBATO_RETURN_IF_ERROR(Publish(std::string(out), old));
  }
  RUBATO_RETURN_IF_ERROR(Publish(folder, std::string(out)));
  RUBATO_RETURN_IF_ERROR(RemoveTree(old));
  return exported;
}

}  // namespace rubato
