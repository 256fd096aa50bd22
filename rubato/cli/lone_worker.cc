#include "rubato/cli/lone_worker.h"

#include <nlohmann/json.hpp>
#include <optional>
#include <utility>

#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"
#include "rubato/cli/summary.h"
#include "rubato/cli/train_watch.h"

namespace rubato {
namespace {

// So that `rubato show` can tell how it stands: nobody else could be asked.
constexpr absl::Duration kKeepSummary = absl::Seconds(2);

}  // namespace

absl::StatusOr<int> RunLoneWorker(LoneWorker worker, const JobDirectory& directory, bool json,
                                  Console& console, bool* joined) {
  const absl::Time start = absl::Now();
  const JobSpec& spec = worker.options.job;
  const auto summarize = [&](const Snapshot& snapshot) {
    return SummaryJson(spec, snapshot, absl::Now() - start, snapshot.records_before,
                       directory.path());
  };
  std::optional<TrainWatch> watch(std::in_place, console, spec, directory);
  absl::Time kept = absl::InfinitePast();
  worker.options.say = [&](const std::string& text) { watch->Say(text); };
  worker.options.show = [&](const Snapshot& snapshot) {
    const absl::Time now = absl::Now();
    watch->Show(snapshot, now);
    if (snapshot.records_expected == 0 || now - kept < kKeepSummary) return;
    kept = now;
    // A full disk is no reason to stop; the last one is written with care.
    WriteFileAtomically(directory.summary(), JsonText(summarize(snapshot), 1) + "\n",
                        Durability::kProcess)
        .IgnoreError();
  };
  GroupLoop loop(worker.options, worker.trainer, worker.train, worker.validation);
  absl::StatusOr<int> result = loop.Run();
  watch.reset();
  *joined = loop.joined();
  if (!loop.joined()) return result;
  nlohmann::ordered_json summary = summarize(loop.snapshot());
  if (!loop.result().weights.empty()) summary["weights"] = loop.result().weights;
  const absl::Status written =
      WriteFileAtomically(directory.summary(), JsonText(summary, 1) + "\n");
  console.err << SummaryTable(summary);
  if (!json && !loop.result().line.empty()) console.out << loop.result().line << "\n";
  if (json && result.ok()) console.out << JsonText(summary) << "\n";
  RUBATO_RETURN_IF_ERROR(result.status());
  RUBATO_RETURN_IF_ERROR(written);
  return result;
}

}  // namespace rubato
