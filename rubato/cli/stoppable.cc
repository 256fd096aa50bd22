#include "rubato/cli/stoppable.h"

#include <memory>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/cli/progress.h"

namespace rubato {

std::function<absl::Status(int64_t done, int64_t total)> Shown(Console& console,
                                                               const std::string& title,
                                                               const std::string& unit) {
  auto bar = std::make_shared<std::unique_ptr<Progress>>();
  return [&console, title, unit, bar](int64_t done, int64_t total) {
    if (*bar == nullptr) *bar = std::make_unique<Progress>(console, title, total, unit);
    (*bar)->Update(done);
    if (done == total) bar->reset();
    return StopSignals() > 0 ? absl::CancelledError(absl::StrCat("stopped while ", title))
                             : absl::OkStatus();
  };
}

absl::StatusOr<int> UntilStopped(const std::function<absl::StatusOr<int>()>& run,
                                 const std::string& and_then, Console& console) {
  CatchStopSignals();
  absl::StatusOr<int> code = run();
  if (!absl::IsCancelled(code.status())) return code;
  console.err << code.status().message() << and_then << "\n";
  return kExitInterrupted;
}

}  // namespace rubato
