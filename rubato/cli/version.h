// The version of this binary.
#ifndef RUBATO_CLI_VERSION_H_
#define RUBATO_CLI_VERSION_H_

#include "rubato/base/version.h"  // IWYU pragma: export

#endif  // RUBATO_CLI_VERSION_H_
