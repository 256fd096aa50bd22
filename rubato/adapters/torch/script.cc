#include "rubato/adapters/torch/script.h"

#include <torch/csrc/jit/frontend/tracer.h>
#include <torch/csrc/jit/passes/dead_code_elimination.h>

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// Sums are taken in another order than by the fused look-ups.
constexpr double kTolerance = 1e-6;

// Any batch will do, as long as it differs from the others. Small numbers, so that no score is so
// near to 0 or 1 that everything looks alike.
ModelInput RandomInput(int64_t rows, const BatchShape& shape, const ModelSignature& signature) {
  ModelInput in;
  in.rows = rows;
  in.labels = torch::zeros({rows});
  in.dense = torch::rand({rows, static_cast<int64_t>(shape.dense.size())});
  in.ids = torch::randint(INT64_MAX, {rows, static_cast<int64_t>(shape.ids.size())}, torch::kInt64);
  for (const TableSpec& table : signature.tables) {
    const auto fields = static_cast<int64_t>(table.fields.size());
    const int64_t distinct = std::max<int64_t>(1, rows * fields);
    PulledRows pulled;
    // A table without fields holds statistics, of which a variance is above 0.
    pulled.rows = fields == 0 ? torch::rand({1, table.dim}) + 0.5
                              : (torch::rand({distinct, table.dim}) - 0.5) * 0.2;
    pulled.position = torch::randint(distinct, {rows, fields}, torch::kInt32);
    in.tables.push_back(std::move(pulled));
  }
  return in;
}

torch::jit::Stack Inputs(const ModelInput& in) {
  torch::jit::Stack inputs = {in.dense};
  for (const PulledRows& table : in.tables) {
    inputs.emplace_back(table.rows);
    inputs.emplace_back(table.position);
  }
  return inputs;
}

// The other way round. What a script is not told (labels, ids) stays as it was.
ModelInput FromInputs(const torch::jit::Stack& inputs, ModelInput in) {
  in.dense = inputs[0].toTensor();
  for (size_t t = 0; t < in.tables.size(); ++t) {
    in.tables[t].rows = inputs[1 + 2 * t].toTensor();
    in.tables[t].position = inputs[2 + 2 * t].toTensor();
  }
  return in;
}

absl::Status Compare(TorchModel& model, torch::jit::Module& script, const ModelInput& in) {
  const torch::Tensor expected = Scores(model, in).reshape(-1);
  std::string why;
  try {
    const torch::Tensor found = RunScript(script, in).reshape(-1);
    if (found.numel() != expected.numel()) {
      why = absl::StrCat("gives ", found.numel(), " scores, not ", expected.numel());
    } else {
      const double distance = (found - expected).abs().max().item<double>();
      if (!(distance <= kTolerance)) why = absl::StrCat("is off by ", distance);
    }
  } catch (const std::exception& error) {
    why = std::string(c10::str(error.what()).substr(0, 200));
  }
  if (why.empty()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat("Forward cannot be traced: for a batch of ", in.rows, " rows its script ", why,
                   "; does it use sizes, or memory of its own? -1 in a view stands for the rows"));
}

}  // namespace

torch::Tensor Scores(TorchModel& model, const ModelInput& in) {
  const torch::Tensor output = model.Forward(in);
  return model.score_width() == 1 ? output.sigmoid() : output;
}

torch::Tensor RunScript(torch::jit::Module& script, const ModelInput& in) {
  return script.forward(Inputs(in)).toTensor();
}

absl::StatusOr<torch::jit::Module> TraceModel(TorchModel& model, const BatchShape& shape,
                                              const ModelSignature& signature) {
  torch::jit::Module script("rubato_model");
  for (const auto& parameter : model.named_parameters()) {
    std::string name = parameter.key();
    std::replace(name.begin(), name.end(), '.', '_');
    script.register_parameter(name, parameter.value(), /*is_buffer=*/false);
  }
  std::vector<std::string> names = {"dense"};
  for (const TableSpec& table : signature.tables) {
    std::string name = table.name;
    std::replace(name.begin(), name.end(), '.', '_');
    names.push_back(name + "_rows");
    names.push_back(name + "_position");
  }
  const ModelInput example = RandomInput(5, shape, signature);
  const auto traced = torch::jit::tracer::trace(
      Inputs(example),
      [&](torch::jit::Stack inputs) -> torch::jit::Stack {
        return {Scores(model, FromInputs(inputs, example))};
      },
      [](const torch::Tensor&) { return std::string(); }, /*strict=*/true,
      /*force_outplace=*/true, &script, names);
  const std::shared_ptr<torch::jit::Graph> graph = traced.first->graph;
  torch::jit::EliminateDeadCode(graph);
  const c10::QualifiedName forward(*script.type()->name(), "forward");
  script.type()->addMethod(script._ivalue()->compilation_unit()->create_function(forward, graph));
  for (const int64_t rows : {7, 1}) {
    RUBATO_RETURN_IF_ERROR(Compare(model, script, RandomInput(rows, shape, signature)));
  }
  return script;
}

}  // namespace rubato
