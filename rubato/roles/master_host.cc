#include "rubato/roles/master_host.h"

#include <cstdio>
#include <cstdlib>
#include <utility>
#include <variant>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/files/files.h"
#include "rubato/adapters/posix/checkpoint_files.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/status.h"
#include "rubato/master/journal.h"
#include "rubato/roles/checkpoint_weights.h"

namespace rubato {
namespace {

constexpr absl::Duration kTick = absl::Milliseconds(20);

// A promise that cannot be kept must not be given: better no master for a moment than a wrong one.
[[noreturn]] void Die(const absl::Status& status) {
  std::fprintf(stderr, "%s\n", std::string(status.message()).c_str());
  std::fflush(stderr);
  std::_Exit(1);
}

void DieUnless(const absl::Status& status) {
  if (!status.ok()) Die(status);
}

}  // namespace

absl::StatusOr<std::unique_ptr<MasterHost>> MasterHost::Open(const JobDirectory& directory,
                                                             MasterOptions options,
                                                             const Clock* clock) {
  RUBATO_ASSIGN_OR_RETURN(AppendFile file, AppendFile::Open(directory.journal()));
  RUBATO_ASSIGN_OR_RETURN(const std::string bytes, ReadWholeFile(directory.journal()));
  absl::StatusOr<Journal> journal = DecodeJournal(bytes, options.version);
  if (!journal.ok()) return Annotate(journal.status(), directory.journal());
  if (journal->good_bytes < file.size()) RUBATO_RETURN_IF_ERROR(file.Truncate(journal->good_bytes));
  absl::StatusOr<std::unique_ptr<Master>> master =
      Master::Open(std::move(options), journal->records, clock->Now());
  if (!master.ok()) return Annotate(master.status(), directory.journal());
  RUBATO_ASSIGN_OR_RETURN(std::unique_ptr<EventLog> events, EventLog::Open(directory.events()));
  return std::unique_ptr<MasterHost>(
      new MasterHost(directory, std::move(file), std::move(events), *std::move(master), clock));
}

MasterHost::MasterHost(const JobDirectory& directory, AppendFile journal,
                       std::unique_ptr<EventLog> events, std::unique_ptr<Master> master,
                       const Clock* clock)
    : directory_(directory),
      clock_(*clock),
      journal_(std::move(journal)),
      events_(std::move(events)),
      master_(std::move(master)),
      // Grows from one life of the master to the next, so that no order is taken for an old one.
      next_order_(absl::ToUnixMicros(clock->Now())) {
  {
    MutexLock lock(mu_);
    PerformAll();
  }
  ticker_ = std::thread([this] { Tick(); });
  filer_ = std::thread([this] { RunFileWork(); });
}

MasterHost::~MasterHost() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    ordered_.NotifyAll();
    conferred_.NotifyAll();
    file_work_added_.NotifyAll();
  }
  ticker_.join();
  filer_.join();
}

void MasterHost::Tick() {
  MutexLock lock(mu_);
  absl::Time next = clock_.Now();
  while (!closing_) {
    if (const absl::Time now = clock_.Now(); now >= next) {
      master_->Tick(now);
      PerformAll();
      next = now + kTick;
    }
    ordered_.WaitFor(mu_, next - clock_.Now());
  }
}

void MasterHost::RunFileWork() {
  while (true) {
    std::function<void()> work;
    {
      MutexLock lock(mu_);
      while (file_work_.empty() && !closing_) file_work_added_.Wait(mu_);
      if (file_work_.empty()) return;  // Closing, and all is done.
      work = std::move(file_work_.front());
      file_work_.pop_front();
    }
    work();
  }
}

void MasterHost::AddFileWork(std::function<void()> work) {
  file_work_.push_back(std::move(work));
  file_work_added_.NotifyAll();
}

template <typename Question>
auto MasterHost::Ask(Question question) {
  MutexLock lock(mu_);
  auto reply = question(*master_, clock_.Now());
  PerformAll();
  return reply;
}

RegisterReply MasterHost::Register(const RegisterRequest& request) {
  return Ask([&](Master& master, absl::Time now) { return master.Register(request, now); });
}

HeartbeatReply MasterHost::WorkerBeat(const WorkerHeartbeat& beat) {
  return Ask([&](Master& master, absl::Time now) { return master.Heartbeat(beat, now); });
}

HeartbeatReply MasterHost::ServerBeat(const ServerHeartbeat& beat) {
  return Ask([&](Master& master, absl::Time now) { return master.Heartbeat(beat, now); });
}

ConferReply MasterHost::Confer(const ConferRequest& request) {
  MutexLock lock(mu_);
  master_->Confer(request, clock_.Now());
  PerformAll();
  const absl::Time until = clock_.Now() + absl::Milliseconds(request.wait_ms);
  const auto news = [&]() ABSL_NO_THREAD_SAFETY_ANALYSIS {
    const ConferReply& newest = view_orders_[request.worker];
    return !newest.order.empty() && newest.number != request.known;
  };
  while (!closing_ && !news() && clock_.Now() < until) {
    conferred_.WaitFor(mu_, until - clock_.Now());
  }
  return view_orders_[request.worker];
}

LeaseReply MasterHost::Lease(const LeaseRequest& request) {
  return Ask([&](Master& master, absl::Time now) { return master.Lease(request, now); });
}

CommitReply MasterHost::Commit(const CommitRequest& request) {
  return Ask([&](Master& master, absl::Time now) { return master.Commit(request, now); });
}

void MasterHost::Fail(const FailRequest& request) {
  MutexLock lock(mu_);
  master_->Fail(request, clock_.Now());
  PerformAll();
}

AttendReply MasterHost::Attend(const AttendRequest& request) {
  MutexLock lock(mu_);
  for (const ExitNotice& exit : request.exits) master_->Exit(exit, clock_.Now());
  PerformAll();
  while (!orders_.empty() && orders_.front().number <= request.orders_done) orders_.pop_front();
  const absl::Time until = clock_.Now() + absl::Milliseconds(request.wait_ms);
  while (orders_.empty() && !finished_ && !closing_ && clock_.Now() < until) {
    ordered_.WaitFor(mu_, until - clock_.Now());
  }
  AttendReply reply;
  reply.orders.assign(orders_.begin(), orders_.end());
  reply.snapshot = master_->snapshot();
  reply.finished = finished_;
  return reply;
}

Snapshot MasterHost::Show() {
  MutexLock lock(mu_);
  return master_->snapshot();
}

ScaleReply MasterHost::Scale(const ScaleRequest& request) {
  return Ask([&](Master& master, absl::Time now) { return master.Scale(request, now); });
}

void MasterHost::Stop() {
  MutexLock lock(mu_);
  master_->Stop(/*checkpoint=*/true, clock_.Now());
  PerformAll();
}

void MasterHost::PerformAll() {
  for (const Effect& effect : master_->TakeEffects()) {
    std::visit([this](const auto& one) ABSL_NO_THREAD_SAFETY_ANALYSIS { Perform(one); }, effect);
  }
}

void MasterHost::Perform(const AppendJournal& effect) { DieUnless(journal_.Append(effect.bytes)); }

void MasterHost::Perform(const LaunchProcess& effect) {
  AddOrder(OrderKind::kLaunch, {effect.role, effect.id, effect.incarnation});
}

void MasterHost::Perform(const SignalProcess& effect) {
  AddOrder(effect.kind == SignalProcess::Kind::kKill ? OrderKind::kKill : OrderKind::kTerminate,
           {effect.role, effect.id, effect.incarnation});
}

void MasterHost::AddOrder(OrderKind kind, const ProcessKey& process) {
  orders_.push_back({.number = ++next_order_, .kind = kind, .process = process});
  ordered_.NotifyAll();
}

void MasterHost::Perform(const JobEvent& effect) { events_->Write(effect); }

void MasterHost::Perform(const WriteManifest& effect) {
  const std::string folder = absl::StrCat(directory_.checkpoints(), "/", effect.version);
  AddFileWork([folder, features = directory_.features(), written = effect.contents,
               journal = directory_.journal()] {
    // What a checkpoint holds must be known to be committed, power cut or not.
    absl::StatusOr<AppendFile> entries = AppendFile::Open(journal);
    DieUnless(entries.ok() ? entries->Sync() : entries.status());
    const std::string path = folder + "/manifest.json";
    const absl::StatusOr<std::string> text = ReadWholeFile(features);
    const std::string contents = SealManifest(written, text.ok() ? &*text : nullptr);
    // A restarted master cannot know whether the one before it came this far.
    if (const auto there = ReadWholeFile(path); there.ok() && *there == contents) return;
    DieUnless(MakeDirectories(folder));
    // Weights mean nothing without the features they were trained on.
    if (text.ok()) DieUnless(WriteFileAtomically(folder + "/features.yaml", *text));
    DieUnless(WriteFileAtomically(path, contents));
  });
}

void MasterHost::Perform(const WriteBest& effect) {
  AddFileWork([path = directory_.best(), version = effect.version] {
    if (version == 0) return DieUnless(RemoveTree(path));
    DieUnless(WriteFileAtomically(path, SealedLine(absl::StrCat(version))));
  });
}

void MasterHost::Perform(const RemoveCheckpoint& effect) {
  AddFileWork([folder = directory_.checkpoints(), kept = effect.kept] {
    DieUnless(KeepCheckpoints(folder, kept));
  });
}

void MasterHost::Perform(const SendOrder& effect) {
  view_orders_[effect.worker] = {.order = effect.order, .number = ++next_order_};
  conferred_.NotifyAll();
}

void MasterHost::Perform(const JobFinished& effect) {
  AddFileWork([this] {
    MutexLock lock(mu_);
    finished_ = true;
    ordered_.NotifyAll();
  });
}

}  // namespace rubato
