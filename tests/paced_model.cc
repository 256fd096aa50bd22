// A model that takes its time and notes what it computes, for tests of who is dealt how much.
//
// A record is its own number. Each row takes as many microseconds as the file `pace` in the option
// `folder` says, or, for one process alone, the file `pace-PID`; the numbers of each batch go to
// `rows-PID`, a line each. It sleeps that long: a test is not to depend on idle cores.
#include <unistd.h>

#include <fstream>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/torch/model.h"

class PacedModel : public rubato::TorchModel {
 public:
  explicit PacedModel(rubato::ModelSetup& setup) : folder_(setup.options.Text("folder", ".")) {
    weight_ = register_module("weight", torch::nn::Linear(1, 1));
  }

  torch::Tensor Forward(const rubato::ModelInput& in) override {
    const torch::Tensor numbers = in.dense.contiguous();
    std::ofstream rows(absl::StrCat(folder_, "/rows-", getpid()), std::ios::app);
    for (int64_t row = 0; row < numbers.size(0); ++row) {
      rows << static_cast<int64_t>(numbers.data_ptr<float>()[row]) << " ";
    }
    rows << std::endl;
    usleep(Pace() * static_cast<useconds_t>(numbers.size(0)));
    return weight_->forward(0 * numbers);
  }

  std::optional<rubato::BatchShape> Columns() const override {
    return rubato::BatchShape{.dense = {"number"}};
  }

  absl::Status Parse(absl::string_view record, rubato::Batch* batch) const override {
    int64_t number = 0;
    if (!absl::SimpleAtoi(record, &number)) return absl::InvalidArgumentError("no number");
    batch->labels.push_back(static_cast<float>(number % 2));
    batch->dense.push_back(static_cast<float>(number));
    ++batch->rows;
    return absl::OkStatus();
  }

 private:
  useconds_t Pace() const {
    useconds_t pace_us = 0;
    std::ifstream own(absl::StrCat(folder_, "/pace-", getpid()));
    if (own >> pace_us) return pace_us;
    std::ifstream(absl::StrCat(folder_, "/pace")) >> pace_us;
    return pace_us;
  }

  const std::string folder_;
  torch::nn::Linear weight_{nullptr};
};

RUBATO_MODEL(PacedModel)
