// Which values of a label are a yes.
#ifndef RUBATO_FEATURES_PROPOSE_LABEL_H_
#define RUBATO_FEATURES_PROPOSE_LABEL_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "rubato/features/analysis.h"
#include "rubato/features/features_spec.h"

namespace rubato {

// Fills in the label's part of `spec` from what is known of its column. `positive`: the values that
// the user says are a yes, or ">=4", from which number on; none: the table says. Of two numbers the
// larger one is, of two texts the one that says so ("yes" beside "no", "bought" beside "not
// bought", ">50K" beside "<=50K"), or else the rarer one. 0 and 1 are so whatever else is there, if
// that is LabelSlips(). INVALID_ARGUMENT as ProposeFeatures, and for fractions between 0 and 1.
absl::Status ProposeLabel(const ColumnStats& stats, const std::string& label,
                          const std::vector<std::string>& positive, FeaturesSpec* spec);

// How many rows have a text in a label of 0 and 1, if they are less than one in a hundred: slips of
// the pen, which are bad rows. Else 0.
int64_t LabelSlips(const ColumnStats& stats);

// INVALID_ARGUMENT that says which column the user may have meant, or else what there is.
absl::Status NoSuchLabel(const std::string& label, const std::vector<std::string>& columns);

// "label 'y': 'yes' counts as 1, 'no' as 0".
std::string LabelText(const FeaturesSpec& spec);

}  // namespace rubato

#endif  // RUBATO_FEATURES_PROPOSE_LABEL_H_
