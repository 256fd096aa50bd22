// The two idx files of a data set as one source: see data/idx.h.
#ifndef RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_
#define RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_

#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/data/record_index.h"
#include "rubato/data/source.h"

namespace rubato {

// The two files that `paths`, as a user writes them, mean: themselves; or for one file of images
// the labels beside it; or for a folder the files that MNIST has there, plain or gzip, beginning
// with `part` ("train", "t10k"). NOT_FOUND names what is missing.
absl::StatusOr<std::vector<std::string>> FindIdxFiles(const std::vector<std::string>& paths,
                                                      absl::string_view part);

// `files` are images and labels, in any order. INVALID_ARGUMENT if they are not, or differ in
// number; DATA_LOSS if they are shorter than they claim.
absl::StatusOr<RecordIndex> BuildIdxIndex(std::vector<IndexedFile> files);
absl::StatusOr<std::unique_ptr<RecordSource>> OpenIdxSource(RecordIndex index);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_IDX_SOURCE_H_
