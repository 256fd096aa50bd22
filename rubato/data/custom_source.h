// Data of your own kind: a class that finds records by number, in a library that a job file names.
//
//     class Clicks : public rubato::CustomSource {
//      public:
//       static absl::StatusOr<std::unique_ptr<Clicks>> Open(const std::string& place);
//       ...                                   // What RecordSource and CustomSource ask for.
//     };
//     RUBATO_SOURCE(Clicks)
//
//     data: {train: clicks.bin, format: ./libclicks.so}
//
// Every process of the job opens every place of data.train and data.validation for itself, and
// reads ranges of records, also the same ones again. examples/source has the CMake file.
#ifndef RUBATO_DATA_CUSTOM_SOURCE_H_
#define RUBATO_DATA_CUSTOM_SOURCE_H_

#include <memory>
#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "rubato/base/version.h"
#include "rubato/data/source.h"

// Grows when this interface changes between releases.
#define RUBATO_SOURCE_API "2"
// Found in the file before it is opened, so that a foreign library never runs a line.
#define RUBATO_SOURCE_STAMP_PREFIX "rubato-source-stamp:"
#define RUBATO_SOURCE_ABI "rubato " RUBATO_VERSION ", source api " RUBATO_SOURCE_API

namespace rubato {

class CustomSource : public RecordSource {
 public:
  // What its records are written as: csv, tsv, criteo, libfm, libsvm or libffm. Features, the
  // format's own parser and a model's parser read them so.
  virtual std::string format() const = 0;
  // For csv and tsv the names of the columns, as a header has them; else empty, or for libfm and
  // libffm "label,1,2,...".
  virtual std::string columns() const = 0;
  // Another text if the records are others: a job does not go on over data that has changed.
  virtual std::string version() const { return ""; }
};

}  // namespace rubato

// Makes `Source` the source of this library. Once a library, outside of namespaces.
#define RUBATO_SOURCE(Source)                                                                   \
  extern "C" __attribute__((visibility("default"), used)) const char rubato_source_stamp[] =    \
      RUBATO_SOURCE_STAMP_PREFIX RUBATO_SOURCE_ABI;                                             \
  extern "C" __attribute__((visibility("default"))) ::rubato::CustomSource* rubato_open_source( \
      const std::string& place, absl::Status* status) {                                         \
    absl::StatusOr<std::unique_ptr<Source>> source = Source::Open(place);                       \
    *status = source.status();                                                                  \
    return source.ok() ? source->release() : nullptr;                                           \
  }

#endif  // RUBATO_DATA_CUSTOM_SOURCE_H_
