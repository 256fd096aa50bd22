// Macros that let a Status pass up in one line, and checks for what only a bug can do.
#ifndef RUBATO_BASE_STATUS_H_
#define RUBATO_BASE_STATUS_H_

#include <string>
#include <utility>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// Puts "`context`: " before the message and keeps the code; an OK status stays as it is.
absl::Status Annotate(const absl::Status& status, absl::string_view context);

[[noreturn]] void CheckFailed(const char* file, int line, const char* condition,
                              absl::string_view message = "");

}  // namespace rubato

#define RUBATO_CONCAT_(a, b) a##b
#define RUBATO_CONCAT(a, b) RUBATO_CONCAT_(a, b)

#define RUBATO_RETURN_IF_ERROR(expr)                                  \
  do {                                                                \
    if (absl::Status rubato_status_ = (expr); !rubato_status_.ok()) { \
      return rubato_status_;                                          \
    }                                                                 \
  } while (false)

#define RUBATO_ASSIGN_OR_RETURN(lhs, expr) \
  RUBATO_ASSIGN_OR_RETURN_(RUBATO_CONCAT(rubato_or_, __LINE__), lhs, expr)
#define RUBATO_ASSIGN_OR_RETURN_(tmp, lhs, expr) \
  auto tmp = (expr);                             \
  if (!tmp.ok()) return tmp.status();            \
  lhs = *std::move(tmp)

// Stops the process, in release too: stopping beats training on a broken ledger.
#define RUBATO_CHECK(condition)                              \
  do {                                                       \
    if (!(condition)) [[unlikely]]                           \
      ::rubato::CheckFailed(__FILE__, __LINE__, #condition); \
  } while (false)

#define RUBATO_CHECK_OK(expr)                                                               \
  do {                                                                                      \
    if (absl::Status rubato_status_ = (expr); !rubato_status_.ok()) [[unlikely]] {          \
      ::rubato::CheckFailed(__FILE__, __LINE__, #expr " is OK", rubato_status_.ToString()); \
    }                                                                                       \
  } while (false)

#endif  // RUBATO_BASE_STATUS_H_
