#include "rubato/cli/progress.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/time/clock.h"

namespace rubato {

Progress::Progress(Console& console, std::string title, int64_t total, std::string unit)
    : console_(console),
      title_(std::move(title)),
      total_(total),
      unit_(std::move(unit)),
      start_(absl::Now()) {}

Progress::~Progress() {
  if (drawn_ == absl::InfinitePast() && !console_.terminal) return;
  Draw(absl::Now(), "");
  if (console_.terminal) console_.err << "\n";
}

void Progress::Update(int64_t done, absl::string_view note) {
  done_ = done;
  const absl::Time now = absl::Now();
  const absl::Duration gap = console_.terminal ? absl::Milliseconds(100) : absl::Seconds(5);
  if (now - std::max(drawn_, console_.terminal ? drawn_ : start_) < gap) return;
  Draw(now, note);
}

void Progress::Draw(absl::Time now, absl::string_view note) {
  drawn_ = now;
  const absl::Duration spent = now - start_;
  const double rate = static_cast<double>(done_) / std::max(1e-9, absl::ToDoubleSeconds(spent));
  std::string line = absl::StrCat(title_, " ");
  if (total_ > 0) {
    const double fraction = static_cast<double>(done_) / static_cast<double>(total_);
    absl::StrAppend(&line, Bar(fraction, 24), absl::StrFormat(" %3.0f%%  ", 100 * fraction));
  }
  absl::StrAppend(&line, ShortCount(static_cast<double>(done_)), " ", unit_, ", ", ShortCount(rate),
                  "/s");
  if (total_ > done_ && done_ > 0) {
    const absl::Duration left = absl::Seconds(static_cast<double>(total_ - done_) / rate);
    absl::StrAppend(&line, ", ", ShortDuration(left), " left");
  }
  if (!note.empty()) absl::StrAppend(&line, "  ", note);
  if (console_.terminal) {
    console_.err << "\r" << line.substr(0, static_cast<size_t>(console_.columns - 1)) << "\x1b[K"
                 << std::flush;
  } else {
    console_.err << line << "\n";
  }
}

std::string Bar(double fraction, int width) {
  const int filled = static_cast<int>(std::clamp(fraction, 0.0, 1.0) * width + 0.5);
  return absl::StrCat("[", std::string(static_cast<size_t>(filled), '#'),
                      std::string(static_cast<size_t>(width - filled), '-'), "]");
}

std::string ShortCount(double count) {
  if (count >= 1e9) return absl::StrFormat("%.2f G", count / 1e9);
  if (count >= 1e6) return absl::StrFormat("%.2f M", count / 1e6);
  if (count >= 1e4) return absl::StrFormat("%.1f k", count / 1e3);
  return absl::StrFormat("%.0f", count);
}

std::string ShortDuration(absl::Duration duration) {
  const double seconds = absl::ToDoubleSeconds(duration);
  if (seconds < 1) return absl::StrFormat("%.0f ms", 1e3 * seconds);
  if (seconds < 60) return absl::StrFormat("%.1f s", seconds);
  const int64_t whole = static_cast<int64_t>(seconds + 0.5);
  if (whole < 3600) return absl::StrFormat("%dm %02ds", whole / 60, whole % 60);
  return absl::StrFormat("%dh %02dm", whole / 3600, whole / 60 % 60);
}

}  // namespace rubato
