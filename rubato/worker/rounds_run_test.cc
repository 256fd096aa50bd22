// Modes sync and hybrid from lease to weights: the ledger, servers and workers of a job in one
// thread, in an order that a seed makes up, with workers and servers killed on the way.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>
#include <deque>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"
#include "rubato/params/checkpoint.h"
#include "rubato/params/checkpoint_reader.h"
#include "rubato/params/move.h"
#include "rubato/params/shard.h"
#include "rubato/tasks/ledger.h"
#include "rubato/worker/local_run.h"
#include "rubato/worker/unique.h"

namespace rubato {
namespace {

using ::testing::FloatNear;
using ::testing::Pointwise;

constexpr int64_t kFeatures = 40;
constexpr int64_t kApart = 300;  // Their weights lie so far apart that three servers have some.
constexpr int64_t kDense = kFeatures * kApart;
constexpr int64_t kBatch = 8;
constexpr uint64_t kIds = 60;

// Logistic regression over features and the sum of an id's row, by hand.
class TinyTrainer : public Trainer {
 public:
  TinyTrainer() {
    signature_.dense = {{.name = "w", .shape = {kDense}, .size = kDense}};
    signature_.dense_size = kDense;
    signature_.tables = {{.name = "t", .dim = 2, .fields = {0, 1}}};
  }
  const ModelSignature& signature() const override { return signature_; }
  std::vector<float> InitialDense(uint64_t) override { return std::vector<float>(kDense, 0.1f); }
  int64_t score_width() const override { return 1; }

  absl::Status Step(const StepInput& in, StepOutput* out) override {
    const Batch& batch = *in.batch;
    out->dense_gradient.assign(kDense, 0);
    out->table_gradients.assign(1, std::vector<float>(in.tables[0].rows.size(), 0));
    for (int64_t r = 0; r < batch.rows; ++r) {
      const float error = (Score(in, r) - batch.labels[r]) / static_cast<float>(batch.rows);
      for (int64_t f = 0; f < kFeatures; ++f) {
        out->dense_gradient[f * kApart] += error * batch.dense[r * kFeatures + f];
      }
      for (int64_t c = 0; c < 2; ++c) {
        const uint32_t row = in.tables[0].position[2 * r + c];
        out->table_gradients[0][2 * row] += error;
        out->table_gradients[0][2 * row + 1] += error * batch.dense[r * kFeatures];
      }
    }
    return absl::OkStatus();
  }
  absl::Status Predict(const StepInput& in, std::vector<float>* scores) override {
    scores->clear();
    for (int64_t r = 0; r < in.batch->rows; ++r) scores->push_back(Score(in, r));
    return absl::OkStatus();
  }

 private:
  static float Score(const StepInput& in, int64_t r) {
    const float* x = in.batch->dense.data() + r * kFeatures;
    float sum = 0;
    for (int64_t f = 0; f < kFeatures; ++f) sum += in.dense[f * kApart] * x[f];
    for (int64_t c = 0; c < 2; ++c) {
      const float* row = in.tables[0].rows.data() + 2 * in.tables[0].position[2 * r + c];
      sum += row[0] + row[1] * x[0];
    }
    return 1 / (1 + std::exp(-sum));
  }
  ModelSignature signature_;
};

void AddRecord(int64_t position, Batch* batch) {
  Rng rng(Mix(99, static_cast<uint64_t>(position)));
  ++batch->rows;
  for (int64_t f = 0; f < kFeatures; ++f) {
    batch->dense.push_back(static_cast<float>(rng.Uniform(-100, 100)) / 100);
  }
  for (int64_t c = 0; c < 2; ++c) batch->ids.push_back(rng.Below(kIds));
  batch->labels.push_back(batch->dense[batch->dense.size() - kFeatures] > 0 ? 1 : 0);
}

Batch BatchOf(const std::vector<Task>& tasks) {
  Batch batch;
  for (const Task& task : tasks) {
    for (int64_t p = task.begin; p < task.end; ++p) AddRecord(p, &batch);
  }
  return batch;
}

OptimizerSpec Adam() {
  OptimizerSpec spec;
  spec.name = "adam";
  spec.learning_rate = 0.05;
  spec.schedule.name = "linear";  // The rate of a step follows from the samples before it.
  spec.schedule.samples = 600;
  spec.schedule.end = 0.2;
  return spec;
}

struct JobOptions {
  PushMode mode = PushMode::kSync;
  int64_t gradients = 1;
  int64_t tolerance = 0;
  size_t servers = 1;
  size_t workers = 1;
  uint64_t seed = 0;
  double kill = 0;  // Chance that a step is somebody's death.
};

// What became of a job: every dense weight, then every id's row.
using Weights = std::vector<float>;

struct LogSink : RecordSink {
  std::vector<std::pair<RecordKind, std::string>> records;
  absl::Status Append(RecordKind kind, absl::string_view body) override {
    records.emplace_back(kind, std::string(body));
    return absl::OkStatus();
  }
};

class Job {
 public:
  explicit Job(const JobOptions& options)
      : options_(options),
        rng_(options.seed),
        ledger_({.records = 301,
                 .batch_size = kBatch,
                 .batches_per_task = 1,
                 .epochs = 2,
                 .shuffle_tasks = true,
                 .round_tasks = options.gradients,
                 .round_tolerance = options.tolerance,
                 .seed = 5}),
        map_(PartitionMap::Even(static_cast<int64_t>(options.servers))),
        shards_(options.servers),
        logs_(options.servers),
        checkpoints_(options.servers),
        hands_(options.workers) {
    for (size_t w = 0; w < options.workers; ++w) ids_.push_back(WorkerId(static_cast<int64_t>(w)));
    for (size_t s = 0; s < options.servers; ++s) Restart(s);
  }

  Weights Run() {
    while (!ledger_.finished() && !testing::Test::HasFailure()) {
      if (rng_.Chance(options_.kill)) {
        Kill();
      } else {
        Work(rng_.Below(hands_.size()));
      }
    }
    for (auto& shard : shards_) EXPECT_TRUE(shard->Whole(ledger_.rounds()).ok());
    std::vector<uint64_t> ids;
    for (uint64_t id = 0; id < kIds; ++id) ids.push_back(id);
    const auto [dense, rows] = Pull(ids, ledger_.rounds());
    Weights weights = dense;
    weights.insert(weights.end(), rows.begin(), rows.end());
    return weights;
  }
  int64_t killed() const { return killed_; }
  int64_t moves() const { return moves_; }

 private:
  // A worker's batch on its way.
  struct Hand {
    Task task;
    UniqueIds ids;
    StepOutput out;
    int64_t rows = 0;
    bool computed = false;
    std::vector<size_t> to;  // Servers that have not got it.
  };

  void Work(size_t w) {
    std::optional<Hand>& hand = hands_[w];
    if (!hand.has_value()) {
      const std::optional<Task> task = ledger_.NextFor(ids_[w], ids_);
      if (!task.has_value()) return;
      ASSERT_TRUE(ledger_.Lease(task->id, ids_[w]).ok());
      hand.emplace().task = ledger_.Find(task->id)->task;
    } else if (!hand->computed) {
      Compute(&*hand);
    } else if (!hand->to.empty()) {
      std::swap(hand->to[rng_.Below(hand->to.size())], hand->to.back());
      Push(w, hand->to.back());
      hand->to.pop_back();
    } else {
      ASSERT_TRUE(ledger_.Commit(hand->task.id, hand->task.end).ok());
      hand.reset();
    }
  }

  void Compute(Hand* hand) {
    const Batch batch = BatchOf({hand->task});
    Unique().Find(batch, 2, trainer_.signature().tables[0].fields, &hand->ids);
    const auto [dense, rows] = Pull(hand->ids.ids, hand->task.rounds);
    const StepInput in = {.batch = &batch,
                          .dense = dense,
                          .tables = {{.rows = rows, .position = hand->ids.position}}};
    ASSERT_TRUE(trainer_.Step(in, &hand->out).ok());
    hand->rows = batch.rows;
    hand->computed = true;
    for (size_t s = 0; s < shards_.size(); ++s) hand->to.push_back(s);
  }

  std::pair<std::vector<float>, std::vector<float>> Pull(const std::vector<uint64_t>& ids,
                                                         int64_t rounds) {
    std::vector<float> dense(kDense), rows(ids.size() * 2);
    PullSplit split;
    split.Encode({.tables = {{.ids = ids, .rows = absl::MakeSpan(rows)}},
                  .dense = absl::MakeSpan(dense),
                  .rounds = rounds},
                 map_);
    for (size_t s = 0; s < shards_.size(); ++s) {
      Buffer reply;
      const absl::string_view body = split.body(static_cast<int64_t>(s)).view();
      const absl::Status before = shards_[s]->BeforePull(body);
      EXPECT_TRUE(before.ok()) << before;
      const absl::Status pulled = shards_[s]->Pull(body, &reply);
      EXPECT_TRUE(pulled.ok()) << pulled;
      EXPECT_TRUE(split.Scatter(static_cast<int64_t>(s), reply.view()).ok());
    }
    return {dense, rows};
  }

  void Push(size_t w, size_t server) {
    const Hand& hand = *hands_[w];
    const PushRequest request = {
        .key = {.epoch = hand.task.epoch,
                .task = hand.task.id.value(),
                .begin = hand.task.begin,
                .end = hand.task.end},
        .worker = ids_[w],
        .view = 1,
        .records = hand.rows,
        .round = hand.task.round,
        .rounds = hand.task.rounds,
        .tables = {{.ids = hand.ids.ids, .gradients = hand.out.table_gradients[0]}},
        .dense = hand.out.dense_gradient};
    PushSplit split;
    split.Encode(request, map_);
    const absl::StatusOr<PushOutcome> outcome =
        shards_[server]->Push(split.body(static_cast<int64_t>(server)).view(), &logs_[server]);
    ASSERT_TRUE(outcome.ok()) << outcome.status();
    EXPECT_TRUE(*outcome == PushOutcome::kApplied || *outcome == PushOutcome::kDuplicate)
        << PushOutcomeName(*outcome);
  }

  // A worker dies with its batch on some servers; or a server, and comes back from a checkpoint and
  // the log after it.
  void Kill() {
    ++killed_;
    if (rng_.Chance(0.6)) {
      const size_t w = rng_.Below(hands_.size());
      ledger_.Reopen(ids_[w]);
      hands_[w].reset();
      return;
    }
    const size_t s = rng_.Below(shards_.size());
    if (rng_.Chance(0.4)) return Move(s, rng_.Below(shards_.size()));
    if (rng_.Chance(0.3)) Checkpoint(s);
    Restart(s);
  }

  // Some of a server's partitions go to another, in the middle of whatever round there is.
  void Move(size_t from, size_t to) {
    const std::vector<Interval> owned = map_.PartitionsOf(static_cast<int64_t>(from)).Intervals();
    if (from == to || owned.empty()) return;
    MoveOrder order = {
        .number = ++moves_, .from = static_cast<int64_t>(from), .to = static_cast<int64_t>(to)};
    const Interval run = owned[rng_.Below(owned.size())];
    order.partitions.Add(
        run.begin + static_cast<int64_t>(rng_.Below(static_cast<uint64_t>(run.end - run.begin))),
        run.end);
    {
      MoveSender sender(*shards_[from], order, 1);
      while (!sender.finished()) {
        for (const auto& [kind, body] : sender.Finish()) {
          const absl::Status status = shards_[to]->Arrive(kind, body, &logs_[to]);
          ASSERT_TRUE(status.ok()) << status;
        }
      }
    }
    map_.Move(order.partitions, order.to);
    for (size_t s = 0; s < shards_.size(); ++s) {
      const absl::Status status = shards_[s]->SetMap(map_, &logs_[s]);
      ASSERT_TRUE(status.ok()) << status;
      while (shards_[s]->Tidy()) {
      }
    }
    // A client that is told of a new map asks everybody again.
    for (std::optional<Hand>& hand : hands_) {
      if (!hand.has_value() || hand->to.empty()) continue;
      hand->to.clear();
      for (size_t s = 0; s < shards_.size(); ++s) hand->to.push_back(s);
    }
  }

  void Checkpoint(size_t s) {
    if (!shards_[s]->declared()) return;
    LogSink sink;
    CheckpointWriter writer(*shards_[s], {.server = static_cast<int64_t>(s),
                                          .servers = static_cast<int64_t>(shards_.size())});
    while (true) {
      const absl::StatusOr<bool> done = writer.Step(sink);
      ASSERT_TRUE(done.ok());
      if (*done) break;
    }
    checkpoints_[s] = std::move(sink);
    logs_[s].records.clear();
  }

  void Restart(size_t s) {
    const auto server = static_cast<int64_t>(s), servers = static_cast<int64_t>(shards_.size());
    shards_[s] = std::make_unique<Shard>(
        memory_, ShardOptions{.server = server, .servers = servers, .rows_max = 1 << 16});
    shards_[s]->SetView(1, ids_);
    if (!checkpoints_[s].records.empty()) {
      size_t bytes = 0;
      for (const auto& [kind, body] : checkpoints_[s].records) bytes += body.size();
      CheckpointReader reader(*shards_[s], bytes);
      for (const auto& [kind, body] : checkpoints_[s].records) {
        Buffer aligned;
        aligned.Append(body.data(), body.size());
        const absl::Status status = reader.Add(kind, aligned.view());
        ASSERT_TRUE(status.ok()) << status;
      }
      ASSERT_TRUE(reader.Finish().ok());
    }
    for (const auto& [kind, body] : logs_[s].records) {
      Buffer aligned;
      aligned.Append(body.data(), body.size());
      const absl::Status status = shards_[s]->Replay(kind, aligned.view());
      ASSERT_TRUE(status.ok()) << status;
    }
    if (shards_[s]->declared()) return;
    const Declaration declaration = {.signature = trainer_.signature(),
                                     .optimizer = Adam(),
                                     .seed = 7,
                                     .mode = options_.mode,
                                     .tolerance = options_.tolerance,
                                     .dense = trainer_.InitialDense(7)};
    const std::string body = EncodeDeclaration(declaration, DenseSlices(kDense, map_, server));
    ASSERT_TRUE(shards_[s]->Declare(body, &logs_[s]).ok());
  }

  const JobOptions options_;
  Rng rng_;
  TinyTrainer trainer_;
  SystemMemory memory_{/*huge_pages=*/false};
  Ledger ledger_;
  PartitionMap map_;
  std::vector<std::unique_ptr<Shard>> shards_;
  std::vector<LogSink> logs_, checkpoints_;
  std::vector<WorkerId> ids_;
  std::vector<std::optional<Hand>> hands_;
  int64_t killed_ = 0;
  int64_t moves_ = 0;
};

// One process that takes a step for every `gradients` batches of the plan, all in one batch.
Weights SingleProcess(int64_t gradients) {
  TinyTrainer trainer;
  LocalRun run(trainer, {.optimizer = Adam(), .id_columns = 2, .seed = 7});
  const TaskPlan plan({.records = 301,
                       .batch_size = kBatch,
                       .batches_per_task = 1,
                       .epochs = 2,
                       .shuffle_tasks = true,
                       .seed = 5});
  std::vector<Task> order;
  for (int64_t epoch = 0; epoch < 2; ++epoch) {
    for (const Task& task : plan.TasksOf(epoch)) order.push_back(task);
  }
  for (size_t i = 0; i < order.size(); i += static_cast<size_t>(gradients)) {
    const size_t end = std::min(order.size(), i + static_cast<size_t>(gradients));
    EXPECT_TRUE(run.Step(BatchOf({order.begin() + i, order.begin() + end})).ok());
  }
  Weights weights = run.dense();
  const std::vector<float> rows = run.Rows(0, kIds);
  weights.insert(weights.end(), rows.begin(), rows.end());
  return weights;
}

TEST(RoundsRunTest, OneGradientARoundIsSingleProcessTrainingToTheBit) {
  const Weights expected = SingleProcess(1);
  EXPECT_EQ(Job({.gradients = 1}).Run(), expected);
  EXPECT_EQ(Job({.gradients = 1, .servers = 3, .workers = 4, .seed = 1}).Run(), expected);
}

TEST(RoundsRunTest, FourGradientsARoundAreTheLargeBatch) {
  const Weights expected = SingleProcess(4);
  EXPECT_THAT(Job({.gradients = 4, .servers = 2, .workers = 4}).Run(),
              Pointwise(FloatNear(1e-5f), expected));
}

// The same bits for any number of workers and servers, whoever dies and whatever moves.
TEST(RoundsRunTest, SyncDependsOnThePlanAlone) {
  const Weights expected = Job({.gradients = 3}).Run();
  int64_t killed = 0, moves = 0;
  for (uint64_t seed = 0; seed < 60; ++seed) {
    Job job({.gradients = 3,
             .servers = 1 + seed % 3,
             .workers = 1 + seed % 5,
             .seed = seed,
             .kill = 0.05});
    ASSERT_EQ(job.Run(), expected) << "seed " << seed;
    killed += job.killed();
    moves += job.moves();
  }
  EXPECT_GT(killed, 500);
  EXPECT_GT(moves, 50);
}

// Who never runs ahead never needs the tolerance.
TEST(RoundsRunTest, OneWorkerIsExactWhateverTheTolerance) {
  EXPECT_EQ(Job({.gradients = 1, .tolerance = 2}).Run(), SingleProcess(1));
  EXPECT_EQ(Job({.gradients = 4, .tolerance = 2, .servers = 2}).Run(),
            Job({.gradients = 4, .servers = 2}).Run());
}

// With a tolerance nothing is lost either.
TEST(RoundsRunTest, ToleranceAndHybridTrainToTheEnd) {
  const Weights expected = SingleProcess(4);
  for (uint64_t seed = 0; seed < 20; ++seed) {
    for (const PushMode mode : {PushMode::kSync, PushMode::kHybrid}) {
      Job job({.mode = mode,
               .gradients = 4,
               .tolerance = 2,
               .servers = 2,
               .workers = 6,
               .seed = seed,
               .kill = 0.03});
      const Weights weights = job.Run();
      ASSERT_EQ(weights.size(), expected.size());
      for (const float weight : weights) ASSERT_TRUE(std::isfinite(weight));
      EXPECT_NE(weights, expected);
    }
  }
}

// Hybrid: the dense weights of a round move together, rows with every push.
TEST(RoundsRunTest, HybridMovesRowsAtOnceAndDenseWeightsByRounds) {
  SystemMemory memory(/*huge_pages=*/false);
  TinyTrainer trainer;
  Shard shard(memory, {.rows_max = 1 << 16});
  shard.SetView(1, {WorkerId(1)});
  const Declaration declaration = {.signature = trainer.signature(),
                                   .optimizer = {.name = "sgd", .learning_rate = 1},
                                   .mode = PushMode::kHybrid,
                                   .dense = trainer.InitialDense(7)};
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(declaration, {{0, kDense}}), nullptr).ok());
  const std::vector<uint64_t> ids = {5};
  const auto read = [&](int64_t rounds) {
    std::vector<float> dense(kDense), rows(2);
    PullSplit split;
    split.Encode({.tables = {{.ids = ids, .rows = absl::MakeSpan(rows)}},
                  .dense = absl::MakeSpan(dense),
                  .rounds = rounds},
                 PartitionMap::Even(1));
    Buffer reply;
    EXPECT_EQ(shard.PullChanges(split.body(0).view()), rounds > shard.rounds());
    EXPECT_TRUE(shard.BeforePull(split.body(0).view()).ok());
    EXPECT_TRUE(shard.Pull(split.body(0).view(), &reply).ok());
    EXPECT_TRUE(split.Scatter(0, reply.view()).ok());
    return std::make_pair(dense[0], rows[0]);
  };
  const auto [dense, row] = read(0);
  const std::vector<float> gradients = {1, 1}, dense_gradient(kDense, 1);
  const auto push = [&](int64_t begin, int64_t round, int64_t rounds) {
    PushSplit split;
    split.Encode({.key = {.begin = begin, .end = begin + 8},
                  .worker = WorkerId(1),
                  .view = 1,
                  .records = 8,
                  .round = round,
                  .rounds = rounds,
                  .tables = {{.ids = ids, .gradients = gradients}},
                  .dense = dense_gradient},
                 PartitionMap::Even(1));
    return shard.Push(split.body(0).view(), nullptr);
  };
  EXPECT_EQ(*push(0, 0, 0), PushOutcome::kApplied);
  EXPECT_EQ(read(0), std::make_pair(dense, row - 1));
  EXPECT_EQ(*push(8, 0, 0), PushOutcome::kApplied);
  EXPECT_EQ(*push(8, 0, 0), PushOutcome::kDuplicate);
  EXPECT_EQ(read(0), std::make_pair(dense, row - 1 - 1));
  EXPECT_EQ(read(1), std::make_pair(dense - 1, row - 1 - 1));  // The mean of two ones.
  // Behind its round by more than is tolerated, or of a round that is over: to be computed again.
  EXPECT_EQ(*push(16, 2, 1), PushOutcome::kStale);
  EXPECT_EQ(*push(16, 0, 0), PushOutcome::kStale);
  EXPECT_EQ(*push(16, 0, 1), PushOutcome::kStale);
  EXPECT_EQ(shard.counters().stale, 3);
  EXPECT_EQ(*push(16, 1, 1), PushOutcome::kApplied);
  // It says itself that its round is over, of which this server has yet to hear.
  EXPECT_EQ(*push(24, 1, 2), PushOutcome::kStale);
  EXPECT_EQ(shard.rounds(), 1);
  // A word that cannot be the ledger's changes nothing.
  EXPECT_EQ(push(24, 1 << 20, 1 << 20).status().code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(shard.Whole(5).code(), absl::StatusCode::kFailedPrecondition);
}

// In a hybrid job dense weights count rounds, and rows pushes: each first step of Adam is the
// learning rate, however many pushes a round has.
TEST(RoundsRunTest, HybridCorrectsTheBiasOfDenseWeightsByRounds) {
  SystemMemory memory(/*huge_pages=*/false);
  TinyTrainer trainer;
  Shard shard(memory, {.rows_max = 1 << 16});
  shard.SetView(1, {WorkerId(1)});
  const Declaration declaration = {.signature = trainer.signature(),
                                   .optimizer = {.name = "adam", .learning_rate = 0.5},
                                   .mode = PushMode::kHybrid,
                                   .dense = std::vector<float>(kDense, 0)};
  ASSERT_TRUE(shard.Declare(EncodeDeclaration(declaration, {{0, kDense}}), nullptr).ok());
  const std::vector<float> gradient(kDense, 3);
  for (int64_t begin = 0; begin < 24; begin += 8) {
    PushSplit split;
    split.Encode({.key = {.begin = begin, .end = begin + 8},
                  .worker = WorkerId(1),
                  .view = 1,
                  .records = 8,
                  .tables = {{}},
                  .dense = gradient},
                 PartitionMap::Even(1));
    ASSERT_EQ(*shard.Push(split.body(0).view(), nullptr), PushOutcome::kApplied);
  }
  ASSERT_TRUE(shard.Whole(1).ok());
  std::vector<float> dense(kDense);
  PullSplit split;
  split.Encode({.tables = {{}}, .dense = absl::MakeSpan(dense), .rounds = 1},
               PartitionMap::Even(1));
  Buffer reply;
  ASSERT_TRUE(shard.Pull(split.body(0).view(), &reply).ok());
  ASSERT_TRUE(split.Scatter(0, reply.view()).ok());
  EXPECT_THAT(dense, testing::Each(FloatNear(-0.5f, 1e-5f)));
}

}  // namespace
}  // namespace rubato
