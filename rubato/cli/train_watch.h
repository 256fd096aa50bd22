// What a user sees while a job trains: a live line, the events worth a word, TensorBoard curves.
#ifndef RUBATO_CLI_TRAIN_WATCH_H_
#define RUBATO_CLI_TRAIN_WATCH_H_

#include <cstdint>
#include <deque>
#include <fstream>
#include <optional>
#include <string>
#include <utility>

#include "absl/time/time.h"
#include "rubato/cli/cli.h"
#include "rubato/job/job_spec.h"
#include "rubato/master/messages.h"
#include "rubato/roles/job_directory.h"
#include "rubato/roles/tensorboard.h"

namespace rubato {

// A job at a glance, for `columns` of room: what is left of it goes to the bar.
std::string ProgressLine(const Snapshot& snapshot, const JobSpec& spec, double records_per_second,
                         int columns);

class TrainWatch {
 public:
  TrainWatch(Console& console, const JobSpec& spec, const JobDirectory& directory);
  ~TrainWatch();  // Ends the live line.

  // Call it often; it draws ten times a second on a terminal, every five seconds in a pipe.
  void Show(const Snapshot& snapshot, absl::Time now);
  // A line of our own, above the live one.
  void Say(const std::string& text);

 private:
  void TellEvents();
  void DrawCurves(const Snapshot& snapshot, absl::Time now);
  double Rate(const Snapshot& snapshot, absl::Time now);

  Console& console_;
  const JobSpec& spec_;
  std::ifstream events_;
  std::string partial_;  // The beginning of an event line not yet wholly written.
  std::optional<TensorBoard> board_;
  std::deque<std::pair<absl::Time, int64_t>> history_;  // Records committed, the last seconds.
  absl::Time drawn_ = absl::InfinitePast();
  absl::Time charted_ = absl::InfinitePast();
  size_t evaluations_ = 0;
  bool line_open_ = false;
};

}  // namespace rubato

#endif  // RUBATO_CLI_TRAIN_WATCH_H_
