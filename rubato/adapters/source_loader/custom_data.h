// Data sets that a plug-in reads: see data/custom_source.h.
#ifndef RUBATO_ADAPTERS_SOURCE_LOADER_CUSTOM_DATA_H_
#define RUBATO_ADAPTERS_SOURCE_LOADER_CUSTOM_DATA_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/record_index.h"
#include "rubato/data/source.h"

namespace rubato {

// Opens every place with the library `plugin`, and notes what it is.
//   NOT_FOUND            there is no such library
//   INVALID_ARGUMENT     it is no source of Rubato; a place without records; columns that differ
//   FAILED_PRECONDITION  it was built for another version, and both are named
// What the source itself says is told with the place.
absl::StatusOr<RecordIndex> IndexCustomData(const std::string& plugin,
                                            const std::vector<std::string>& places);

// `index` is IndexCustomData()'s. Places are opened when they are first read: DATA_LOSS if one is
// no longer what it was.
std::unique_ptr<RecordSource> OpenCustomData(RecordIndex index);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SOURCE_LOADER_CUSTOM_DATA_H_
