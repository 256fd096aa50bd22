#include "rubato/models/zoo.h"

#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "rubato/job/suggest.h"

namespace rubato {
namespace {

struct Entry {
  const char* name;
  TorchModel* (*make)(ModelSetup&);
};
constexpr Entry kZoo[] = {
    {"autoint", MakeAutoInt},    {"dcn", MakeDcn},
    {"dcnv2", MakeDcnV2},        {"deepfm", MakeDeepFm},
    {"finalmlp", MakeFinalMlp},  {"fm", MakeFm},
    {"logistic", MakeLogistic},  {"mnist_cnn", MakeMnistCnn},
    {"resnet", MakeResNet},      {"transformer", MakeTransformer},
    {"wide_deep", MakeWideDeep}, {"xdeepfm", MakeXDeepFm},
};

}  // namespace

absl::StatusOr<ModelFactory> FindZooModel(const std::string& name) {
  std::vector<std::string> names;
  for (const Entry& entry : kZoo) {
    if (name == entry.name) return ModelFactory(entry.make);
    names.push_back(entry.name);
  }
  return absl::NotFoundError(absl::StrCat("model: the zoo has ", absl::StrJoin(names, ", "),
                                          ", not '", name, "'", DidYouMean(name, names),
                                          "; a plug-in is given by its path, ending in .so"));
}

}  // namespace rubato
