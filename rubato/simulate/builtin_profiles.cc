#include "rubato/simulate/builtin_profiles.h"

#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace rubato {
namespace {

constexpr int kGpusPerNode = 8;
constexpr int kGpusMax = 64;

// Times of one step on one A100, in milliseconds.
struct Shape {
  const char* model;
  std::vector<int> batch_sizes;
  double compute_ms;  // Of the first batch size; grows with it, shrinks with the GPUs.
  double fixed_ms;    // Launches and the optimizer: there on any number of GPUs.
  double sync_ms;     // One exchange of all gradients within a node.
};

const std::vector<Shape>& Shapes() {
  static const auto* shapes = new std::vector<Shape>{
      {"deepfm", {4096, 16384}, 38, 4.0, 9},          // Small and chatty: peaks early.
      {"mobilenet", {256, 512}, 170, 6.0, 5},         // Little to exchange.
      {"convnet", {128, 256, 512}, 210, 8.0, 12},     // The middle of the road.
      {"speech", {64, 128}, 420, 15.0, 16},           //
      {"transformer", {64, 128, 256}, 300, 9.0, 40},  // Much to exchange.
      {"diffusion", {128, 256}, 900, 12.0, 30},       // Grows to the end.
      {"llm", {128, 256}, 1600, 20.0, 130},           // Large in every way.
  };
  return *shapes;
}

struct Type {
  const char* name;
  double speed;  // Of computation,
  double wire;   // and of exchange, an A100's being 1.
};
constexpr Type kTypes[] = {{"A100", 1, 1}, {"V100", 0.48, 0.6}, {"T4", 0.16, 0.3}};

double StepMs(const Shape& shape, const Type& type, int batch_size, int gpus) {
  const double compute = shape.compute_ms * batch_size / shape.batch_sizes.front();
  // A ring sends 2 (n - 1) / n of the gradients, and waits a little longer with every member.
  const double ring = gpus == 1 ? 0 : 2.0 * (gpus - 1) / gpus + 0.04 * gpus;
  const double between_nodes = gpus > kGpusPerNode ? 1.6 : 1;
  return (compute / gpus + shape.fixed_ms) / type.speed +
         shape.sync_ms * ring * between_nodes / type.wire;
}

Curve MakeCurve(const Shape& shape, const Type& type, int batch_size) {
  std::vector<CurvePoint> points;
  for (int gpus = 1; gpus <= kGpusMax && gpus <= batch_size; gpus *= 2) {
    points.push_back({gpus, 1000 / StepMs(shape, type, batch_size, gpus)});
  }
  return Curve(std::move(points));
}

}  // namespace

const std::vector<std::string>& BuiltinGpuTypes() {
  static const auto* types = [] {
    auto* names = new std::vector<std::string>;
    for (const Type& type : kTypes) names->push_back(type.name);
    return names;
  }();
  return *types;
}

const std::vector<BuiltinModel>& BuiltinModels() {
  static const auto* models = [] {
    auto* all = new std::vector<BuiltinModel>;
    for (const Shape& shape : Shapes()) {
      for (int batch_size : shape.batch_sizes) all->push_back({shape.model, batch_size});
    }
    return all;
  }();
  return *models;
}

CurveBook BuiltinCurves() {
  CurveBook book;
  for (const Type& type : kTypes) {
    for (const Shape& shape : Shapes()) {
      for (int batch_size : shape.batch_sizes) {
        book.Add(shape.model, batch_size, type.name, MakeCurve(shape, type, batch_size));
      }
    }
  }
  return book;
}

std::string FormatBuiltinProfile(absl::string_view model, absl::string_view gpu_type) {
  for (const Type& type : kTypes) {
    for (const Shape& shape : Shapes()) {
      if (gpu_type != type.name || model != shape.model) continue;
      std::string text = "global_batch_size,1,2,4,8,16,32,64\n";
      for (int batch_size : shape.batch_sizes) {
        absl::StrAppend(&text, batch_size);
        for (int gpus = 1; gpus <= kGpusMax; gpus *= 2) {
          absl::StrAppendFormat(&text, ",%.17g", MakeCurve(shape, type, batch_size).Rate(gpus));
        }
        text += "\n";
      }
      return text;
    }
  }
  return "";
}

}  // namespace rubato
