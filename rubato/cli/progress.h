// A bar for long work: redrawn in place on a terminal, a plain line now and then in a pipe.
#ifndef RUBATO_CLI_PROGRESS_H_
#define RUBATO_CLI_PROGRESS_H_

#include <cstdint>
#include <string>

#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/cli/cli.h"

namespace rubato {

class Progress {
 public:
  // `total` 0 means unknown: a count is shown instead of a bar. `unit` is a plural: "records".
  Progress(Console& console, std::string title, int64_t total, std::string unit);
  ~Progress();  // Ends the line.
  Progress(const Progress&) = delete;
  Progress& operator=(const Progress&) = delete;

  // Shows `done` of the total, with `note` behind it. Cheap to call often: it draws ten times a
  // second on a terminal, every five seconds in a pipe.
  void Update(int64_t done, absl::string_view note = "");

 private:
  void Draw(absl::Time now, absl::string_view note);

  Console& console_;
  const std::string title_;
  const int64_t total_;
  const std::string unit_;
  const absl::Time start_;
  absl::Time drawn_ = absl::InfinitePast();
  int64_t done_ = 0;
};

// "[#######-------]" of the given width, for a fraction between 0 and 1.
std::string Bar(double fraction, int width);
// "1.2 M", "13.0 k", "512".
std::string ShortCount(double count);
// "2h 05m", "3m 20s", "4.2 s", "12 ms".
std::string ShortDuration(absl::Duration duration);

}  // namespace rubato

#endif  // RUBATO_CLI_PROGRESS_H_
