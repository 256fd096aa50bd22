// features.yaml: YAML in, FeaturesSpec out, and back.
//
//     label: {column: income, positive: ">50K", negative: "<=50K"}   # or a column of 0 and 1
//     missing: ["?"]                              # besides the empty text
//     features:
//       - {column: age, transform: discretize, boundaries: [18, 30, 65]}
//       - {column: city, transform: lookup, vocabulary_file: cities.txt}
//       - {name: age_x_city, columns: [age, city], transform: cross}
//
// Every error says where, as in a job file. A vocabulary is a list, a text with a word a line, or
// such a text in a file of its own; once read, it is part of the features, so that what is written
// stands for itself.
#ifndef RUBATO_ADAPTERS_YAML_FEATURES_FILE_H_
#define RUBATO_ADAPTERS_YAML_FEATURES_FILE_H_

#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "rubato/features/features_spec.h"

namespace rubato {

// Reads and validates. Vocabulary files are looked for beside `path`.
absl::StatusOr<FeaturesSpec> LoadFeaturesFile(const std::string& path);
// The same for text that came from `path`, which need not exist.
absl::StatusOr<FeaturesSpec> ParseFeaturesText(absl::string_view text, const std::string& path);

// Loads back as an equal spec.
std::string FormatFeaturesText(const FeaturesSpec& spec);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_YAML_FEATURES_FILE_H_
