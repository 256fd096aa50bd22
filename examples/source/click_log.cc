// A source of one's own: a log of clicks, 16 bytes each, little-endian:
//
//     uint32 user, uint32 page, float price, uint8 hour, uint8 click, uint16 nothing
#include <absl/strings/str_cat.h>
#include <sys/stat.h>

#include <cstdio>
#include <cstring>
#include <memory>

#include "rubato/data/custom_source.h"

class ClickLog : public rubato::CustomSource {
 public:
  static absl::StatusOr<std::unique_ptr<ClickLog>> Open(const std::string& place) {
    std::unique_ptr<ClickLog> log(new ClickLog(place));
    struct stat status;
    log->file_.reset(std::fopen(place.c_str(), "rb"));
    if (log->file_ == nullptr || fstat(fileno(log->file_.get()), &status) != 0) {
      return absl::NotFoundError("cannot be opened");
    }
    if (status.st_size % kBytes != 0) {
      return absl::InvalidArgumentError(absl::StrCat("is no log of clicks of ", kBytes, " bytes"));
    }
    log->records_ = status.st_size / kBytes;
    log->version_ =
        absl::StrCat(status.st_size, " ", status.st_mtim.tv_sec, " ", status.st_mtim.tv_nsec);
    return log;
  }

  std::string format() const override { return "csv"; }
  std::string columns() const override { return "click,user,page,price,hour"; }
  std::string version() const override { return version_; }
  int64_t records() const override { return records_; }
  std::string Locate(int64_t record) const override {
    return absl::StrCat(place_, ", click ", record);
  }

  absl::Status Read(int64_t begin, int64_t end,
                    absl::FunctionRef<absl::Status(int64_t, absl::string_view)> visit) override {
    char bytes[kBytes];
    if (std::fseek(file_.get(), begin * kBytes, SEEK_SET) != 0) {
      return absl::DataLossError(absl::StrCat(place_, ": is cut short"));
    }
    for (int64_t record = begin; record < end; ++record) {
      if (std::fread(bytes, kBytes, 1, file_.get()) != 1) {
        return absl::DataLossError(absl::StrCat(place_, ": is cut short"));
      }
      uint32_t user = 0, page = 0;
      float price = 0;
      std::memcpy(&user, bytes, sizeof(user));
      std::memcpy(&page, bytes + 4, sizeof(page));
      std::memcpy(&price, bytes + 8, sizeof(price));
      const std::string row =
          absl::StrCat(int{bytes[13]}, ",u", user, ",p", page, ",", price, ",", int{bytes[12]});
      if (absl::Status status = visit(record, row); !status.ok()) return status;
    }
    return absl::OkStatus();
  }

 private:
  static constexpr int64_t kBytes = 16;
  struct Close {
    void operator()(std::FILE* file) const { std::fclose(file); }
  };

  explicit ClickLog(std::string place) : place_(std::move(place)) {}

  const std::string place_;
  std::unique_ptr<std::FILE, Close> file_;
  int64_t records_ = 0;
  std::string version_;
};

RUBATO_SOURCE(ClickLog)
