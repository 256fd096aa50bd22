#include "rubato/adapters/torch/torch_trainer.h"

#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch/bags.h"
#include "rubato/adapters/torch/finite.h"
#include "rubato/adapters/torch/script.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// The user's Parse as a RecordParser.
class ModelParser : public RecordParser {
 public:
  ModelParser(std::shared_ptr<const TorchModel> model, BatchShape shape)
      : model_(std::move(model)), shape_(std::move(shape)) {}
  const BatchShape& shape() const override { return shape_; }
  absl::Status Parse(absl::string_view record, Batch* batch) const override {
    return model_->Parse(record, batch);
  }

 private:
  const std::shared_ptr<const TorchModel> model_;
  const BatchShape shape_;
};

// libtorch and users' models throw; Rubato does not. Runs `body`, which returns a Status.
template <typename Body>
absl::Status Caught(absl::string_view doing, Body body) {
  try {
    return body();
  } catch (const c10::Error& error) {
    return absl::InternalError(absl::StrCat(doing, ": ", error.what_without_backtrace()));
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat(doing, ": ", error.what()));
  }
}

// For what has no Status to go through: the process ends as a failed role does, with the reason as
// its last words.
void OrExit(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

// Tensors over memory we do not own. libtorch has no const tensors; nothing writes to these.
torch::Tensor View(const float* data, at::IntArrayRef shape) {
  return torch::from_blob(const_cast<float*>(data), shape, torch::kFloat32);
}

// While it lives the model's parameters are the given weights; after that, nothing.
class BoundWeights {
 public:
  BoundWeights(std::vector<torch::Tensor>& parameters, const ModelSignature& signature,
               absl::Span<const float> dense)
      : parameters_(parameters) {
    for (size_t i = 0; i < parameters_.size(); ++i) {
      const DenseParameter& spec = signature.dense[i];
      parameters_[i].set_data(View(dense.data() + spec.offset, spec.shape));
    }
  }
  ~BoundWeights() {
    for (torch::Tensor& parameter : parameters_) parameter.set_data(torch::empty({0}));
  }
  BoundWeights(const BoundWeights&) = delete;
  BoundWeights& operator=(const BoundWeights&) = delete;

 private:
  std::vector<torch::Tensor>& parameters_;
};

// Without servers a table is weights like any others: what it asks for beyond is refused, since it
// would silently not be done.
absl::Status CheckWithoutServers(const TableSpec& table, const BatchShape& shape) {
  for (const int64_t field : table.fields) {
    const int64_t bag = field - static_cast<int64_t>(shape.ids.size());
    if (bag < 0 || bag >= static_cast<int64_t>(shape.bags.size())) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "feature '", shape.bags[static_cast<size_t>(bag)].name,
        "' has several values a row, which are looked up on servers only: use strategy: ps, or "
        "take its separator out"));
  }
  bool has_own = table.optimizer.has_value();
  for (const ColumnGroup& group : table.groups) has_own |= group.optimizer.has_value();
  if (!has_own) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat("embedding ", table.name,
                   " has an optimizer of its own, which needs servers: use strategy: ps"));
}

}  // namespace

TorchTrainer::TorchTrainer(ModelFactory factory, const ModelSetup& setup, std::string engine)
    : factory_(std::move(factory)), setup_(setup), engine_(std::move(engine)) {}

TorchTrainer::~TorchTrainer() = default;

absl::StatusOr<std::unique_ptr<TorchTrainer>> TorchTrainer::Make(ModelFactory factory,
                                                                 const ModelSetup& setup,
                                                                 std::string engine) {
  std::unique_ptr<TorchTrainer> trainer(
      new TorchTrainer(std::move(factory), setup, std::move(engine)));
  RUBATO_RETURN_IF_ERROR(Caught("making the model", [&] { return trainer->Describe(); }));
  return trainer;
}

absl::StatusOr<std::shared_ptr<TorchModel>> TorchTrainer::MakeModel(BatchShape* shape) const {
  ModelSetup setup = setup_;
  const std::shared_ptr<TorchModel> model(factory_(setup));
  std::vector<EmbeddingImpl*> tables;
  for (const std::shared_ptr<torch::nn::Module>& module : model->modules()) {
    if (auto* table = dynamic_cast<EmbeddingImpl*>(module.get())) tables.push_back(table);
  }
  // Asked for with servers too, so that a job file serves both.
  const int64_t buckets = tables.empty() ? 0 : setup.options.Int("buckets", 0, 0);
  RUBATO_RETURN_IF_ERROR(setup.options.Check());
  if (shape != nullptr) *shape = setup.shape;
  if (setup.servers) return model;
  for (EmbeddingImpl* table : tables) {
    if (buckets == 0 || buckets > INT32_MAX) {
      return absl::InvalidArgumentError(absl::StrCat(
          "no server holds embedding ", table->spec().name,
          " in this strategy: give the option buckets, how many rows every worker shall keep of "
          "each embedding (ids share them by hash), or choose strategy: ps"));
    }
    RUBATO_RETURN_IF_ERROR(CheckWithoutServers(table->spec(), setup.shape));
    table->KeepAsWeights(buckets);
  }
  return model;
}

absl::Status TorchTrainer::Describe() {
  RUBATO_ASSIGN_OR_RETURN(model_, MakeModel(&shape_));
  if (std::optional<BatchShape> columns = model_->Columns()) {
    shape_ = *columns;
    parser_ = std::make_unique<ModelParser>(model_, *columns);
  }
  for (const auto& buffer : model_->named_buffers()) {
    return absl::InvalidArgumentError(
        absl::StrCat("the model keeps a buffer, ", buffer.key(),
                     ", which no server would hold; use layers without one (LayerNorm for "
                     "BatchNorm)"));
  }
  for (const auto& parameter : model_->named_parameters()) {
    const torch::Tensor& value = parameter.value();
    if (value.scalar_type() != torch::kFloat32) {
      return absl::InvalidArgumentError(
          absl::StrCat("parameter ", parameter.key(), " is not 32-bit float"));
    }
    signature_.dense.push_back({.name = parameter.key(),
                                .shape = value.sizes().vec(),
                                .size = value.numel(),
                                .offset = signature_.dense_size});
    signature_.dense_size += value.numel();
    parameters_.push_back(value);
  }
  gradients_ = std::make_unique<DenseGradients>(parameters_, signature_);
  return DescribeTables();
}

absl::Status TorchTrainer::DescribeTables() {
  std::set<std::string> names;
  for (const std::shared_ptr<torch::nn::Module>& module : model_->modules()) {
    auto* table = dynamic_cast<EmbeddingImpl*>(module.get());
    if (table == nullptr) continue;
    const TableSpec& spec = table->spec();
    if (!names.insert(spec.name).second) {
      return absl::InvalidArgumentError(absl::StrCat("two embeddings are named ", spec.name));
    }
    if (spec.dim <= 0) {
      return absl::InvalidArgumentError(
          absl::StrCat("embedding ", spec.name, " needs a dim above 0"));
    }
    for (const int64_t field : spec.fields) {
      if (field >= 0 && field < static_cast<int64_t>(AllFields(shape_).size())) continue;
      return absl::InvalidArgumentError(absl::StrCat("embedding ", spec.name, " looks up field ",
                                                     field, ", and the data has ",
                                                     shape_.ids.size(), " id columns"));
    }
    if (!setup_.servers) continue;  // It is among the dense weights.
    table->set_index(signature_.tables.size());
    signature_.tables.push_back(spec);
  }
  return absl::OkStatus();
}

OptimizerSpec TorchTrainer::optimizer(const OptimizerSpec& job) const {
  return model_->Optimizer(job);
}

std::vector<float> TorchTrainer::InitialDense(uint64_t seed) {
  std::vector<float> dense(static_cast<size_t>(signature_.dense_size));
  OrExit(Caught("making the starting weights", [&]() -> absl::Status {
    torch::manual_seed(seed);
    RUBATO_ASSIGN_OR_RETURN(const std::shared_ptr<TorchModel> fresh, MakeModel());
    float* to = dense.data();
    for (const torch::Tensor& parameter : fresh->parameters()) {
      const torch::Tensor value = parameter.detach().contiguous();
      to = std::copy_n(value.data_ptr<float>(), value.numel(), to);
    }
    return absl::OkStatus();
  }));
  return dense;
}

absl::Status TorchTrainer::CheckInput(const StepInput& in) const {
  RUBATO_CHECK(in.batch != nullptr);
  RUBATO_CHECK(in.dense.size() == static_cast<size_t>(signature_.dense_size));
  RUBATO_CHECK(in.tables.size() == signature_.tables.size());
  const Batch& batch = *in.batch;
  const size_t rows = static_cast<size_t>(batch.rows);
  if (batch.labels.size() != rows || batch.dense.size() != rows * shape_.dense.size() ||
      batch.ids.size() != rows * shape_.ids.size() ||
      batch.bag_ends.size() != rows * shape_.bags.size()) {
    return absl::InternalError(
        absl::StrCat("a batch of ", rows, " rows has ", batch.labels.size(), " labels, ",
                     batch.dense.size(), " numbers and ", batch.ids.size(), " ids; the model has ",
                     shape_.dense.size(), " number and ", shape_.ids.size(), " id columns"));
  }
  return absl::OkStatus();
}

ModelInput TorchTrainer::Wrap(const Batch& batch) const {
  ModelInput input;
  input.rows = batch.rows;
  input.labels = View(batch.labels.data(), {batch.rows});
  input.dense = View(batch.dense.data(), {batch.rows, static_cast<int64_t>(shape_.dense.size())});
  input.ids =
      torch::from_blob(const_cast<uint64_t*>(batch.ids.data()),
                       {batch.rows, static_cast<int64_t>(shape_.ids.size())}, torch::kInt64);
  return input;
}

ModelInput TorchTrainer::Wrap(const StepInput& in, StepOutput* out) const {
  ModelInput input = Wrap(*in.batch);
  for (size_t t = 0; t < in.tables.size(); ++t) {
    const TableSpec& spec = signature_.tables[t];
    const TableRows& table = in.tables[t];
    RUBATO_CHECK(table.rows.size() % static_cast<size_t>(spec.dim) == 0);
    const size_t cells = spec.fields.size() * static_cast<size_t>(input.rows);
    RUBATO_CHECK(table.position.size() >= cells);
    const int64_t distinct = static_cast<int64_t>(table.rows.size()) / spec.dim;
    const int64_t fields = static_cast<int64_t>(spec.fields.size());
    PulledRows pulled;
    pulled.rows = View(table.rows.data(), {distinct, spec.dim});
    pulled.position = torch::from_blob(const_cast<uint32_t*>(table.position.data()),
                                       {input.rows, fields}, torch::kInt32);
    if (out != nullptr) {
      std::vector<float>& gradient = out->table_gradients[t];
      gradient.assign(table.rows.size(), 0.0f);
      pulled.rows.set_requires_grad(true);
      pulled.gradient = View(gradient.data(), {distinct, spec.dim});
    }
    const std::vector<BagField> bags = BagsOf(spec, shape_);
    if (!bags.empty()) {
      CombineBags(*in.batch, bags, table.position.subspan(cells), &pulled);
    } else {
      RUBATO_CHECK(table.position.size() == cells);
    }
    input.tables.push_back(std::move(pulled));
  }
  return input;
}

absl::Status TorchTrainer::Step(const StepInput& in, StepOutput* out) {
  RUBATO_RETURN_IF_ERROR(CheckInput(in));
  out->table_gradients.resize(in.tables.size());
  out->dense_gradient.resize(static_cast<size_t>(signature_.dense_size));
  return Caught("training step", [&]() -> absl::Status {
    torch::manual_seed(in.seed);
    const BoundWeights bound(parameters_, signature_, in.dense);
    gradients_->Begin(absl::MakeSpan(out->dense_gradient), in.watch);
    const ModelInput input = Wrap(in, out);
    if (!model_->is_training()) model_->train();
    const torch::Tensor loss = model_->Loss(model_->Forward(input), input);
    out->loss = loss.item<double>();
    if (!std::isfinite(out->loss)) {
      return absl::OutOfRangeError(absl::StrCat("the loss is ", out->loss));
    }
    loss.backward();
    RUBATO_RETURN_IF_ERROR(gradients_->End());
    return CheckTableGradients(*out);
  });
}

absl::Status TorchTrainer::CheckTableGradients(const StepOutput& out) const {
  for (size_t t = 0; t < out.table_gradients.size(); ++t) {
    if (AnyNotFinite(out.table_gradients[t])) {
      return absl::OutOfRangeError(
          absl::StrCat("the gradient of embedding ", signature_.tables[t].name, " is not finite"));
    }
  }
  return absl::OkStatus();
}

absl::Status TorchTrainer::Predict(const StepInput& in, std::vector<float>* scores) {
  RUBATO_RETURN_IF_ERROR(CheckInput(in));
  return Caught("predicting", [&]() -> absl::Status {
    torch::NoGradGuard no_gradients;
    const BoundWeights bound(parameters_, signature_, in.dense);
    if (model_->is_training()) model_->eval();
    const ModelInput input = Wrap(in, nullptr);
    const torch::Tensor output =
        (script_.has_value() ? RunScript(*script_, input) : Scores(*model_, input)).contiguous();
    if (output.numel() != input.rows * score_width()) {
      return absl::InternalError(absl::StrCat("Forward gave ", output.numel(), " scores for ",
                                              input.rows, " rows of ", score_width()));
    }
    scores->assign(output.data_ptr<float>(), output.data_ptr<float>() + output.numel());
    return absl::OkStatus();
  });
}

absl::Status TorchTrainer::SaveScript(absl::Span<const float> dense, const std::string& path) {
  return Caught("making TorchScript", [&]() -> absl::Status {
    torch::NoGradGuard no_gradients;
    const BoundWeights bound(parameters_, signature_, dense);
    model_->eval();
    RUBATO_ASSIGN_OR_RETURN(const torch::jit::Module script,
                            TraceModel(*model_, shape_, signature_));
    script.save(path);
    return absl::OkStatus();
  });
}

absl::Status TorchTrainer::UseScript(const std::string& path) {
  return Caught(path, [&]() -> absl::Status {
    script_ = torch::jit::load(path);
    return absl::OkStatus();
  });
}

int64_t TorchTrainer::score_width() const { return model_->score_width(); }

std::map<std::string, double> TorchTrainer::Metrics(const Batch& batch,
                                                    absl::Span<const float> scores) {
  std::map<std::string, double> metrics;
  OrExit(Caught("the model's metrics", [&] {
    torch::NoGradGuard no_gradients;
    torch::Tensor tensor = View(scores.data(), {batch.rows, score_width()});
    if (score_width() == 1) tensor = tensor.squeeze(1);
    metrics = model_->Metrics(Wrap(batch), tensor);
    return absl::OkStatus();
  }));
  return metrics;
}

void TorchTrainer::OnTaskBegin(int64_t epoch) {
  OrExit(Caught("the model's OnTaskBegin", [&] {
    model_->OnTaskBegin(epoch);
    return absl::OkStatus();
  }));
}

void TorchTrainer::OnTrainEnd() {
  OrExit(Caught("the model's OnTrainEnd", [&] {
    model_->OnTrainEnd();
    return absl::OkStatus();
  }));
}

}  // namespace rubato
