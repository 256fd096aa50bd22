// A TorchModel seen as a Trainer: plain memory in, plain memory out, and no exception passes.
#ifndef RUBATO_ADAPTERS_TORCH_TORCH_TRAINER_H_
#define RUBATO_ADAPTERS_TORCH_TORCH_TRAINER_H_

#include <torch/script.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/adapters/torch/dense_gradients.h"
#include "rubato/adapters/torch/model.h"
#include "rubato/model/trainer.h"

namespace rubato {

// Makes the same model again and again; its starting weights follow libtorch's seed.
using ModelFactory = std::function<TorchModel*(ModelSetup&)>;

// During a step the model's parameters are views of the weights handed in, its embeddings read the
// rows handed in, and gradients go to the step's output while backward runs. One thread.
class TorchTrainer : public Trainer {
 public:
  // INVALID_ARGUMENT if the model refuses its options or columns, looks up a column that is not
  // there, holds something no server can (buffers, weights that are not float), or has unbounded
  // tables in a job without servers.
  static absl::StatusOr<std::unique_ptr<TorchTrainer>> Make(ModelFactory factory,
                                                            const ModelSetup& setup,
                                                            std::string engine);
  ~TorchTrainer() override;

  const ModelSignature& signature() const override { return signature_; }
  std::string engine() const override { return engine_; }
  OptimizerSpec optimizer(const OptimizerSpec& job) const override;
  const RecordParser* parser() const override { return parser_.get(); }
  std::vector<float> InitialDense(uint64_t seed) override;
  absl::Status Step(const StepInput& in, StepOutput* out) override;
  absl::Status Predict(const StepInput& in, std::vector<float>* scores) override;
  int64_t score_width() const override;
  absl::Status SaveScript(absl::Span<const float> dense, const std::string& path) override;
  absl::Status UseScript(const std::string& path) override;
  std::map<std::string, double> Metrics(const Batch& batch,
                                        absl::Span<const float> scores) override;
  void OnTaskBegin(int64_t epoch) override;
  void OnTrainEnd() override;

 private:
  TorchTrainer(ModelFactory factory, const ModelSetup& setup, std::string engine);
  // A fresh model, with its tables where the job has room for them. `shape`, if not null, becomes
  // what the model made of its own.
  absl::StatusOr<std::shared_ptr<TorchModel>> MakeModel(BatchShape* shape = nullptr) const;
  absl::Status Describe();
  absl::Status DescribeTables();
  absl::Status CheckInput(const StepInput& in) const;
  // The batch and its rows as tensors over the same memory; `out` null when only predicting.
  ModelInput Wrap(const StepInput& in, StepOutput* out) const;
  ModelInput Wrap(const Batch& batch) const;
  absl::Status CheckTableGradients(const StepOutput& out) const;

  const ModelFactory factory_;
  ModelSetup setup_;  // As given: a copy is handed to every model made.
  const std::string engine_;
  BatchShape shape_;
  std::unique_ptr<RecordParser> parser_;
  std::shared_ptr<TorchModel> model_;
  std::vector<torch::Tensor> parameters_;  // In the order of the signature.
  ModelSignature signature_;
  std::unique_ptr<DenseGradients> gradients_;
  std::optional<torch::jit::Module> script_;  // What predicts instead of the model.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_TORCH_TORCH_TRAINER_H_
