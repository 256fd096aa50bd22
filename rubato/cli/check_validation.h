// Whether what training will be evaluated on is like what it learns from: told by `rubato init`,
// and not when the first pass is over.
#ifndef RUBATO_CLI_CHECK_VALIDATION_H_
#define RUBATO_CLI_CHECK_VALIDATION_H_

#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rubato/features/analysis.h"
#include "rubato/features/features_spec.h"

namespace rubato {

// INVALID_ARGUMENT if the validation data has other columns than the training data, or labels that
// the training data does not have, with the nearest: an evaluation would end at them. A number that
// is none, in a column where all were numbers, counts as missing from now on: `features` say so,
// and `said` names the column.
absl::Status CheckValidation(const Analysis& train, const Analysis& validation,
                             FeaturesSpec* features, std::vector<std::string>* said);

}  // namespace rubato

#endif  // RUBATO_CLI_CHECK_VALIDATION_H_
