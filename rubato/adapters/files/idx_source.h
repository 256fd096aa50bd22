// The two idx files of a data set as one source: see data/idx.h.
#ifndef RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_
#define RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_

#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "rubato/data/record_index.h"
#include "rubato/data/source.h"

namespace rubato {

// `files` are images and labels. INVALID_ARGUMENT if they are not, or differ in number; DATA_LOSS
// if they are shorter than they claim.
absl::StatusOr<RecordIndex> BuildIdxIndex(std::vector<IndexedFile> files);
absl::StatusOr<std::unique_ptr<RecordSource>> OpenIdxSource(RecordIndex index);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_
