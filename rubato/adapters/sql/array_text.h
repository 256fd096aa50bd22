// PostgreSQL's arrays as lists in JSON, which is how lists are read everywhere else.
#ifndef RUBATO_ADAPTERS_SQL_ARRAY_TEXT_H_
#define RUBATO_ADAPTERS_SQL_ARRAY_TEXT_H_

#include <string>

#include "absl/strings/string_view.h"

namespace rubato {

// {drama,"film noir",NULL} as ["drama", "film noir", null]; of booleans t and f are 1 and 0, as
// they are without an array. One that does not begin at 1, [0:1]={...}, stays as it is.
std::string ArrayAsJson(absl::string_view array, bool of_booleans);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_SQL_ARRAY_TEXT_H_
