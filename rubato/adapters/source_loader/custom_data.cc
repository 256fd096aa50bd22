#include "rubato/adapters/source_loader/custom_data.h"

#include <dlfcn.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <sstream>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/bytes.h"
#include "rubato/base/status.h"
#include "rubato/data/custom_source.h"
#include "rubato/data/record_blocks.h"

namespace rubato {
namespace {

using OpenSourceFn = CustomSource* (*)(const std::string& place, absl::Status* status);

// What the library was built for, read from its bytes before any of its code runs.
absl::StatusOr<std::string> ReadAbi(const std::string& plugin) {
  std::ifstream file(plugin, std::ios::binary);
  if (!file) {
    return absl::NotFoundError(absl::StrCat("data.format: ", plugin, ": ", std::strerror(errno)));
  }
  std::stringstream bytes;
  bytes << file.rdbuf();
  const std::string& text = bytes.str();
  const std::string prefix = RUBATO_SOURCE_STAMP_PREFIX;
  const size_t at = text.find(prefix);
  if (at != std::string::npos) return std::string(text.c_str() + at + prefix.size());
  return absl::InvalidArgumentError(absl::StrCat(
      "data.format: ", plugin, ": not a source of Rubato; does it say RUBATO_SOURCE(...)?"));
}

absl::StatusOr<OpenSourceFn> LoadPlugin(const std::string& plugin) {
  RUBATO_ASSIGN_OR_RETURN(const std::string abi, ReadAbi(plugin));
  if (abi != RUBATO_SOURCE_ABI) {
    return absl::FailedPreconditionError(absl::StrCat("data.format: ", plugin, " was built for ",
                                                      abi, ", and this is ", RUBATO_SOURCE_ABI,
                                                      ": build it again"));
  }
  void* library = dlopen(plugin.c_str(), RTLD_NOW | RTLD_LOCAL);
  void* open = library == nullptr ? nullptr : dlsym(library, "rubato_open_source");
  if (open == nullptr) {
    return absl::FailedPreconditionError(absl::StrCat("data.format: ", plugin, ": ", dlerror()));
  }
  return reinterpret_cast<OpenSourceFn>(open);
}

absl::StatusOr<std::unique_ptr<CustomSource>> OpenPlace(OpenSourceFn open,
                                                        const std::string& place) {
  absl::Status status;
  std::unique_ptr<CustomSource> source(open(place, &status));
  if (!status.ok()) return Annotate(status, place);
  if (source == nullptr) {
    return absl::InternalError(absl::StrCat(place, ": the source opens nothing, and says no why"));
  }
  return source;
}

// A source's version as a number for the index.
int64_t MarkOf(const CustomSource& source) {
  return static_cast<int64_t>(HashText(source.version(), /*seed=*/1));
}

// The places of a data set, one after the other.
class CustomData : public RecordSource {
 public:
  explicit CustomData(RecordIndex index) : index_(std::move(index)) {
    for (const IndexedFile& place : index_.files) {
      first_.push_back(records_);
      records_ += place.records;
    }
    sources_.resize(index_.files.size());
  }

  int64_t records() const override { return records_; }

  absl::Status Read(
      int64_t begin, int64_t end,
      absl::FunctionRef<absl::Status(int64_t record, absl::string_view bytes)> visit) override {
    RUBATO_CHECK(0 <= begin && begin <= end && end <= records_);
    while (begin < end) {
      const size_t place = PlaceOf(begin);
      RUBATO_RETURN_IF_ERROR(Open(place));
      reading_ = sources_[place].get();
      const int64_t first = first_[place];
      const int64_t stop = std::min(end, first + index_.files[place].records);
      int64_t next = begin;
      RUBATO_RETURN_IF_ERROR(sources_[place]->Read(begin - first, stop - first,
                                                   [&](int64_t record, absl::string_view bytes) {
                                                     if (record + first != next++)
                                                       return OutOfOrder(place);
                                                     return visit(record + first, bytes);
                                                   }));
      if (next != stop) return OutOfOrder(place);
      begin = stop;
    }
    return absl::OkStatus();
  }

  std::string Locate(int64_t record) const override {
    const size_t place = PlaceOf(record);
    if (sources_[place] != nullptr) return sources_[place]->Locate(record - first_[place]);
    return absl::StrCat(index_.files[place].path, ", record ", record - first_[place]);
  }

  std::optional<DataAway> away() const override {
    const CustomSource* source = reading_;
    return source != nullptr ? source->away() : std::nullopt;
  }

 private:
  size_t PlaceOf(int64_t record) const {
    return static_cast<size_t>(std::upper_bound(first_.begin(), first_.end(), record) -
                               first_.begin() - 1);
  }

  absl::Status Open(size_t place) {
    if (sources_[place] != nullptr) return absl::OkStatus();
    RUBATO_ASSIGN_OR_RETURN(const OpenSourceFn open, LoadPlugin(index_.format));
    const IndexedFile& file = index_.files[place];
    RUBATO_ASSIGN_OR_RETURN(auto source, OpenPlace(open, file.path));
    if (source->records() != file.records || MarkOf(*source) != file.modified_ns) {
      return absl::DataLossError(absl::StrCat(
          file.path, ": was changed since its records were counted; begin the job anew"));
    }
    sources_[place] = std::move(source);
    return absl::OkStatus();
  }

  absl::Status OutOfOrder(size_t place) const {
    return absl::InternalError(absl::StrCat(index_.files[place].path, ": its source, ",
                                            index_.format,
                                            ", did not read the records it was asked for"));
  }

  const RecordIndex index_;  // `modified_ns` of a place is its version.
  std::vector<int64_t> first_;
  int64_t records_ = 0;
  std::vector<std::unique_ptr<CustomSource>> sources_;  // Null until first read.
  std::atomic<const CustomSource*> reading_ = nullptr;  // The one read last.
};

}  // namespace

absl::StatusOr<RecordIndex> IndexCustomData(const std::string& plugin,
                                            const std::vector<std::string>& places) {
  RUBATO_ASSIGN_OR_RETURN(const OpenSourceFn open, LoadPlugin(plugin));
  RecordIndex index = {.format = plugin};
  for (const std::string& place : places) {
    RUBATO_ASSIGN_OR_RETURN(const auto source, OpenPlace(open, place));
    const std::string schema =
        WrapSchema({.format = source->format(), .schema = source->columns()});
    if (index.files.empty()) index.schema = schema;
    if (schema != index.schema) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": its columns, '", schema,
                                                     "', are not those of ", places[0], ", '",
                                                     index.schema, "'"));
    }
    if (source->records() <= 0) {
      return absl::InvalidArgumentError(absl::StrCat(place, ": holds no records"));
    }
    index.files.push_back(
        {.path = place, .modified_ns = MarkOf(*source), .records = source->records()});
  }
  return index;
}

std::unique_ptr<RecordSource> OpenCustomData(RecordIndex index) {
  return std::make_unique<CustomData>(std::move(index));
}

}  // namespace rubato
