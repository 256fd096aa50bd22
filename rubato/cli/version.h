// The version of this binary. Everything it writes for a later process to read carries it.
#ifndef RUBATO_CLI_VERSION_H_
#define RUBATO_CLI_VERSION_H_

namespace rubato {
constexpr char kVersion[] = "0.1.0";
}  // namespace rubato

#endif  // RUBATO_CLI_VERSION_H_
