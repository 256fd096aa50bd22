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

absl::StatusOr<std::unique_ptr<TorchTrainer>> MakeTrainer(const JobSpec& spec,
                                                          const BatchShape& shape) {
  const bool plugin = absl::EndsWith(spec.model, ".so");
  RUBATO_ASSIGN_OR_RETURN(ModelFactory factory,
                          plugin ? OpenPlugin(spec.model) : FindZooModel(spec.model));
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
