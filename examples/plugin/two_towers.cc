// A model of one's own: users and items each have a tower, and a click is likely when the two
// towers' vectors point the same way. The data is its own, too: "label user_id country item_id".
#include <absl/strings/str_split.h>

#include "rubato/adapters/torch/model.h"
#include "rubato/data/ids.h"

class TwoTowers : public rubato::TorchModel {
 public:
  explicit TwoTowers(rubato::ModelSetup& setup) {
    const int64_t dim = setup.options.Int("dim", 8, 1);
    const int64_t out = setup.options.Int("out", 8, 1);
    users_ = register_module("users", rubato::Embedding("users", dim, std::vector<int64_t>{0, 1}));
    items_ = register_module(
        "items", rubato::Embedding("items", dim, std::vector<int64_t>{2}, rubato::Normal(0.1)));
    user_tower_ = register_module("user_tower", torch::nn::Linear(2 * dim, out));
    item_tower_ = register_module("item_tower", torch::nn::Linear(dim, out));
  }

  torch::Tensor Forward(const rubato::ModelInput& in) override {
    const torch::Tensor user = user_tower_->forward(users_->forward(in).flatten(1)).tanh();
    const torch::Tensor item = item_tower_->forward(items_->forward(in).flatten(1));
    return (user * item).sum(1);
  }

  std::optional<rubato::BatchShape> Columns() const override {
    return rubato::BatchShape{.dense = {}, .ids = {"user", "country", "item"}};
  }

  absl::Status Parse(absl::string_view record, rubato::Batch* batch) const override {
    const std::vector<absl::string_view> words = absl::StrSplit(record, ' ');
    if (words.size() != 4 || (words[0] != "0" && words[0] != "1")) {
      return absl::InvalidArgumentError("a record is: 0 or 1, user, country, item");
    }
    batch->labels.push_back(words[0] == "1" ? 1.0f : 0.0f);
    for (int field = 0; field < 3; ++field) {
      batch->ids.push_back(rubato::FieldIdOfText(field, words[field + 1]));
    }
    ++batch->rows;
    return absl::OkStatus();
  }

 private:
  rubato::Embedding users_{nullptr}, items_{nullptr};
  torch::nn::Linear user_tower_{nullptr}, item_tower_{nullptr};
};

RUBATO_MODEL(TwoTowers)
