// A source of drawn digits that can be held back, so that a test has time for its strikes however
// fast or busy the machine is, and undisturbed runs over the same records take none.
//
// A place is a file that says "records seed contrast". While there is a file `pace` beside it, each
// record that is read takes as many microseconds as it says. While there is a file `read`, a line
// is added to it for every range that is read: training can be seen to go on where nobody tells of
// it.
#include <unistd.h>

#include <fstream>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "rubato/data/custom_source.h"
#include "tests/digit_pixels.h"

class PacedDigits : public rubato::CustomSource {
 public:
  static absl::StatusOr<std::unique_ptr<PacedDigits>> Open(const std::string& place) {
    std::unique_ptr<PacedDigits> digits(new PacedDigits(place));
    std::ifstream file(place);
    if (!(file >> digits->records_ >> digits->seed_ >> digits->contrast_)) {
      return absl::NotFoundError("says no number");
    }
    for (int i = 0; i < 256; ++i) digits->shades_.push_back(absl::StrFormat(",%.3f", i / 255.0));
    return digits;
  }

  std::string format() const override { return "csv"; }
  std::string columns() const override {
    std::string names = "digit";
    for (int i = 0; i < rubato::kDigitPixels; ++i) absl::StrAppend(&names, ",p", i);
    return names;
  }
  int64_t records() const override { return records_; }
  std::string Locate(int64_t record) const override { return absl::StrCat(place_, ", ", record); }

  absl::Status Read(int64_t begin, int64_t end,
                    absl::FunctionRef<absl::Status(int64_t, absl::string_view)> visit) override {
    useconds_t pace_us = 0;
    const std::string folder = place_.substr(0, place_.rfind('/'));
    std::ifstream(folder + "/pace") >> pace_us;
    if (pace_us > 0) usleep(pace_us * static_cast<useconds_t>(end - begin));
    if (const std::string log = folder + "/read"; access(log.c_str(), W_OK) == 0) {
      std::ofstream(log, std::ios::app) << absl::StrCat(begin, " ", end, "\n") << std::flush;
    }
    for (int64_t record = begin; record < end; ++record) {
      const absl::Status status = visit(record, Row(record));
      if (!status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  explicit PacedDigits(std::string place) : place_(std::move(place)) {}

  // Drawn when it is asked for: workers that come and go all the time read little each.
  std::string Row(int64_t record) const {
    rubato::Rng rng(rubato::Mix(seed_, static_cast<uint64_t>(record)));
    const rubato::DigitImage image = rubato::NextDigit(rng, contrast_);
    std::string row = absl::StrCat(image.kind);
    for (const uint8_t pixel : image.pixels) row += shades_[pixel];
    return row;
  }

  const std::string place_;
  int64_t records_ = 0;
  uint64_t seed_ = 0;
  int contrast_ = 0;
  std::vector<std::string> shades_;  // From 0 to 1, as models like them.
};

RUBATO_SOURCE(PacedDigits)
