// What the user may have meant.
#ifndef RUBATO_JOB_SUGGEST_H_
#define RUBATO_JOB_SUGGEST_H_

#include <string>
#include <vector>

#include "absl/strings/string_view.h"

namespace rubato {

// "; did you mean 'optimizer'?" for the candidate nearest to `word`, the first of equals, or ""
// if none is near (more than a third of its letters differ, or the only one of "7" and "0").
std::string DidYouMean(absl::string_view word, const std::vector<std::string>& candidates);

}  // namespace rubato

#endif  // RUBATO_JOB_SUGGEST_H_
