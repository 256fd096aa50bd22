// The yardstick of bench/train: DeepFM as one would write it on libtorch alone. One process, one
// thread, nn::Embedding with sparse gradients, libtorch's optimizer, and Rubato's reader, so that
// the ratio is about training. Prints JSON.
//   plain_torch --data train.tsv [--records N] [--warmup N] [--batch 512] [--dim 16]
//               [--rows 1048576] [--optimizer adagrad|sgd] [--tuned]
// --warmup so many of the records are trained before the clock starts.
// --tuned gives it the allocator settings of Rubato's workers.
#include <dlfcn.h>
#include <time.h>
#include <torch/torch.h>
#include <unistd.h>

#include <cstdio>
#include <map>
#include <memory>
#include <string>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/file_source.h"
#include "rubato/adapters/torch/engine.h"
#include "rubato/base/status.h"
#include "rubato/worker/task_reader.h"

namespace rubato {
namespace {

struct Flags {
  std::string data;
  int64_t records = INT64_MAX;
  int64_t warmup = 0;
  int64_t batch = 512;
  int64_t dim = 16;
  int64_t rows = 1 << 20;  // Of the table: ids are taken modulo this.
  std::string optimizer = "adagrad";
  double learning_rate = 0.05;
  bool tuned = false;
};

class PlainDeepFm : public torch::nn::Module {
 public:
  PlainDeepFm(const Flags& flags, int64_t fields) {
    const auto table = [&](int64_t dim) {
      return torch::nn::Embedding(torch::nn::EmbeddingOptions(flags.rows, dim).sparse(true));
    };
    wide_ = register_module("wide", table(1));
    deep_ = register_module("deep", table(flags.dim));
    torch::nn::init::uniform_(wide_->weight, -0.01, 0.01);
    torch::nn::init::uniform_(deep_->weight, -0.01, 0.01);
    mlp_ =
        register_module("mlp", torch::nn::Sequential(torch::nn::Linear(fields * flags.dim, 256),
                                                     torch::nn::ReLU(), torch::nn::Linear(256, 128),
                                                     torch::nn::ReLU(), torch::nn::Linear(128, 1)));
  }

  torch::Tensor forward(const torch::Tensor& ids) {
    const torch::Tensor v = deep_->forward(ids);
    const torch::Tensor pairs = v.sum(1).pow(2).sum(1) - v.pow(2).sum({1, 2});
    return wide_->forward(ids).sum({1, 2}) + 0.5 * pairs + mlp_->forward(v.flatten(1)).squeeze(1);
  }

 private:
  torch::nn::Embedding wide_{nullptr}, deep_{nullptr};
  torch::nn::Sequential mlp_{nullptr};
};

std::unique_ptr<torch::optim::Optimizer> MakeOptimizer(const Flags& flags,
                                                       std::vector<torch::Tensor> parameters) {
  if (flags.optimizer == "sgd") {
    return std::make_unique<torch::optim::SGD>(parameters, flags.learning_rate);
  }
  return std::make_unique<torch::optim::Adagrad>(parameters,
                                                 torch::optim::AdagradOptions(flags.learning_rate));
}

double CpuSeconds() {
  timespec now;
  clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
  return static_cast<double>(now.tv_sec) + 1e-9 * static_cast<double>(now.tv_nsec);
}

absl::Status OneThread(bool tuned) {
  if (tuned) return PrepareEngine().status();
  torch::set_num_threads(1);
  using SetThreads = void (*)(int);
  const auto set = reinterpret_cast<SetThreads>(dlsym(RTLD_DEFAULT, "openblas_set_num_threads"));
  if (set != nullptr) set(1);
  return absl::OkStatus();
}

absl::Status Train(const Flags& flags) {
  RUBATO_RETURN_IF_ERROR(OneThread(flags.tuned));
  const std::string index = absl::StrCat("/tmp/plain_torch.", getpid(), ".index");
  DataSpec data;
  data.train = {flags.data};
  RUBATO_ASSIGN_OR_RETURN(
      const int64_t found,
      BuildIndex(data, data.train, index, [](int64_t, int64_t) { return absl::OkStatus(); }));
  RUBATO_ASSIGN_OR_RETURN(OpenedData opened, OpenData(data, index));
  std::remove(index.c_str());
  const int64_t fields = static_cast<int64_t>(opened.parser->shape().ids.size());
  TaskReader reader(*opened.source, *opened.parser, {.seed = 7, .batch_size = flags.batch});
  reader.Start({.id = TaskId(0), .begin = 0, .end = std::min(found, flags.records)});

  torch::manual_seed(7);
  const auto model = std::make_shared<PlainDeepFm>(flags, fields);
  const auto optimizer = MakeOptimizer(flags, model->parameters());
  BatchKey key;
  Batch batch;
  int64_t records = 0;
  double loss_sum = 0, read_seconds = 0;
  int64_t steps = 0;
  bool warm = flags.warmup == 0;
  absl::Time start = absl::Now();
  double start_cpu = CpuSeconds();
  while (true) {
    if (!warm && records >= flags.warmup) {
      warm = true;
      records = steps = 0;
      loss_sum = read_seconds = 0;
      start = absl::Now();
      start_cpu = CpuSeconds();
    }
    const double read_start = CpuSeconds();
    RUBATO_ASSIGN_OR_RETURN(const bool more, reader.Next(&key, &batch));
    if (!more) break;
    torch::Tensor ids = torch::empty({batch.rows, fields}, torch::kLong);
    int64_t* to = ids.data_ptr<int64_t>();
    for (const uint64_t id : batch.ids) {
      *to++ = static_cast<int64_t>(id % static_cast<uint64_t>(flags.rows));
    }
    const torch::Tensor labels = torch::from_blob(batch.labels.data(), {batch.rows});
    read_seconds += CpuSeconds() - read_start;
    optimizer->zero_grad();
    const torch::Tensor loss = torch::binary_cross_entropy_with_logits(model->forward(ids), labels);
    loss.backward();
    optimizer->step();
    loss_sum += loss.item<double>();
    records += batch.rows;
    ++steps;
  }
  const double seconds = absl::ToDoubleSeconds(absl::Now() - start);
  const double cpu = CpuSeconds() - start_cpu;
  std::printf(
      "{\"program\": \"plain_torch\", \"optimizer\": \"%s\", \"tuned\": %s, \"batch\": %ld, "
      "\"dim\": %ld, \"records\": %ld, \"seconds\": %.3f, \"records_per_second\": %.0f, "
      "\"records_per_cpu_second\": %.0f, \"read_share\": %.3f, \"mean_loss\": %.5f}\n",
      flags.optimizer.c_str(), flags.tuned ? "true" : "false", flags.batch, flags.dim, records,
      seconds, static_cast<double>(records) / seconds, static_cast<double>(records) / cpu,
      read_seconds / cpu, loss_sum / static_cast<double>(steps));
  return absl::OkStatus();
}

bool Read(int argc, char** argv, Flags* flags) {
  const std::map<std::string, int64_t*> numbers = {{"--records", &flags->records},
                                                   {"--warmup", &flags->warmup},
                                                   {"--batch", &flags->batch},
                                                   {"--dim", &flags->dim},
                                                   {"--rows", &flags->rows}};
  const std::map<std::string, std::string*> texts = {{"--data", &flags->data},
                                                     {"--optimizer", &flags->optimizer}};
  for (int i = 1; i < argc; ++i) {
    const std::string flag = argv[i];
    if (flag == "--tuned") {
      flags->tuned = true;
    } else if (const auto number = numbers.find(flag); number != numbers.end() && i + 1 < argc) {
      if (!absl::SimpleAtoi(argv[++i], number->second)) return false;
    } else if (const auto text = texts.find(flag); text != texts.end() && i + 1 < argc) {
      *text->second = argv[++i];
    } else {
      return false;
    }
  }
  return !flags->data.empty();
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  rubato::Flags flags;
  if (!rubato::Read(argc, argv, &flags)) {
    std::fprintf(stderr,
                 "plain_torch --data train.tsv [--records N] [--warmup N] [--batch N] "
                 "[--dim N] [--rows N] [--optimizer adagrad|sgd] [--tuned]\n");
    return 2;
  }
  const absl::Status status = rubato::Train(flags);
  if (!status.ok()) std::fprintf(stderr, "%s\n", status.ToString().c_str());
  return status.ok() ? 0 : 1;
}
