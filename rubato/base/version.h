// The version of this build. Everything it writes for a later process to read carries it.
#ifndef RUBATO_BASE_VERSION_H_
#define RUBATO_BASE_VERSION_H_

#define RUBATO_VERSION "0.1.0"

namespace rubato {
constexpr char kVersion[] = RUBATO_VERSION;
}  // namespace rubato

#endif  // RUBATO_BASE_VERSION_H_
