// A trained model ready to score: opened from a job directory's checkpoint, or from an export.
//
// An export is a folder that stands for itself:
//
//   manifest.json   versions, and size and checksum of every other file
//   job.yaml        the job as trained: model, options, format
//   schema          the columns of its training data
//   features.yaml   the features, if the job has some
//   weights.bin     dense weights and embedding rows (params/weights.h)
//   model.pt        the model as TorchScript (adapters/torch/script.h), if it can be written so
//   lib*.so         the plug-in, if the model is one
#ifndef RUBATO_ROLES_SERVABLE_H_
#define RUBATO_ROLES_SERVABLE_H_

#include <cstdint>
#include <memory>
#include <optional>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/data/formats.h"
#include "rubato/data/source.h"
#include "rubato/features/features_spec.h"
#include "rubato/job/job_spec.h"
#include "rubato/model/trainer.h"
#include "rubato/params/weights.h"
#include "rubato/worker/frozen_model.h"

namespace rubato {

// Grows when the folder above changes.
constexpr int kExportFormat = 3;

struct Servable {
  JobSpec job;
  std::string schema;  // Columns of the training data, as its index has them.
  std::optional<FeaturesSpec> features;
  int64_t checkpoint = 0;    // Version.
  int64_t step = 0;          // At which it was cut.
  std::string script;        // The path of model.pt, if there is one.
  std::string no_script;     // Why not, if there is none.
  bool uses_script = false;  // Whether that is what scores.
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<FrozenWeights> weights;
  std::unique_ptr<FrozenModel> model;

  // Who reads records of columns `schema`, as training did. Without `has_labels` they need not have
  // any. Null if the model has a parser of its own.
  absl::StatusOr<std::unique_ptr<const RecordParser>> MakeParser(const std::string& schema,
                                                                 bool has_labels) const {
    return MakeParser(job.data, schema, has_labels);
  }
  // The same for records of another format, `data`. INVALID_ARGUMENT if it has other columns than
  // the model was made for. Columns have the names that Named() gives them.
  absl::StatusOr<std::unique_ptr<const RecordParser>> MakeParser(const DataSpec& data,
                                                                 const std::string& schema,
                                                                 bool has_labels) const;
  // Other data by training's columns, as NameAsTrained() has it.
  absl::StatusOr<NamedData> Named(const DataSpec& data, const std::string& schema,
                                  bool has_labels) const;

  // From now on model.pt scores. FAILED_PRECONDITION if there is none.
  absl::Status UseScript();
};

// One more of a servable's model, for one more thread, over the same weights.
struct Scorer {
  std::unique_ptr<Trainer> trainer;
  std::unique_ptr<FrozenModel> model;
};
// `servable` outlives it.
absl::StatusOr<Scorer> MakeScorer(const Servable& servable);

// `path` is a job directory, of which the best checkpoint is taken, if the job keeps it, or the
// newest complete one, unless `version` names one; or an export.
//   NOT_FOUND            neither of them; no such checkpoint, with those that are there
//   FAILED_PRECONDITION  an export of another version; a plug-in that has changed since
//   DATA_LOSS            a damaged file, named
absl::StatusOr<Servable> OpenServable(const std::string& path, int64_t version = 0);

// Writes an export of a checkpoint of `job_dir` to the folder `out`, which is there as a whole or
// not at all. ALREADY_EXISTS if something is there and not `replace`; FAILED_PRECONDITION if it is
// neither an export nor an empty folder.
struct ExportOptions {
  std::string job_dir;
  std::string out;
  int64_t version = 0;  // 0: the newest.
  bool replace = false;
};
struct Exported {
  int64_t checkpoint = 0, step = 0, rows = 0, bytes = 0;
  std::string no_script;  // Why there is no model.pt; empty if there is.
};
absl::StatusOr<Exported> WriteExport(const ExportOptions& options);

}  // namespace rubato

#endif  // RUBATO_ROLES_SERVABLE_H_
