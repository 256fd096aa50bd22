// The door of librubato_torch.so. adapters/torch_loader opens the library and calls this by name,
// with nothing in the signature that a C linker could not carry.
#include "absl/strings/match.h"
#include "rubato/adapters/torch/engine.h"
#include "rubato/adapters/torch/plugin.h"
#include "rubato/adapters/torch/torch_trainer.h"
#include "rubato/base/status.h"
#include "rubato/base/version.h"
#include "rubato/models/zoo.h"

namespace rubato {
namespace {

// A batch of one row has no variance: it would be trained on, and nothing learned.
absl::Status CheckBatchNorm(const JobSpec& spec) {
  ModelOptions options(spec.model_options);
  if (spec.batch_size > 1 || !options.Bool("batch_norm", false)) return absl::OkStatus();
  return absl::InvalidArgumentError(
      "model_options.batch_norm: batch_size: 1 leaves nothing to normalize by; choose a larger "
      "batch_size, or batch_norm: false");
}

absl::StatusOr<std::unique_ptr<TorchTrainer>> MakeTrainer(const JobSpec& spec,
                                                          const BatchShape& shape) {
  const bool plugin = absl::EndsWith(spec.model, ".so");
  RUBATO_ASSIGN_OR_RETURN(ModelFactory factory,
                          plugin ? OpenPlugin(spec.model) : FindZooModel(spec.model));
  if (!plugin) RUBATO_RETURN_IF_ERROR(CheckBatchNorm(spec));
  RUBATO_ASSIGN_OR_RETURN(std::string engine, PrepareEngine());
  const ModelSetup setup{.options = ModelOptions(spec.model_options),
                         .shape = shape,
                         .servers = spec.strategy != "allreduce",
                         .optimizer = spec.optimizer};
  absl::StatusOr<std::unique_ptr<TorchTrainer>> trainer =
      TorchTrainer::Make(std::move(factory), setup, std::move(engine));
  if (!trainer.ok()) return Annotate(trainer.status(), "model " + spec.model);
  return trainer;
}

}  // namespace
}  // namespace rubato

extern "C" __attribute__((visibility("default"))) const char rubato_engine_version[] =
    RUBATO_VERSION;

// Null and `*status` on failure; otherwise the caller owns what it gets.
extern "C" __attribute__((visibility("default"))) rubato::Trainer* rubato_make_trainer(
    const rubato::JobSpec& spec, const rubato::BatchShape& shape, absl::Status* status) {
  absl::StatusOr<std::unique_ptr<rubato::TorchTrainer>> trainer = rubato::MakeTrainer(spec, shape);
  *status = trainer.status();
  return trainer.ok() ? trainer->release() : nullptr;
}
