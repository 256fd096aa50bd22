// What members of a group must have in common, as text: one "key: value" a line.
//
// The text's hash is part of the group's, so whoever differs is not heard. That alone would leave a
// newcomer waiting for ever: it asks for the text, and can say what is different.
#ifndef RUBATO_ADAPTERS_RING_CONTRACT_H_
#define RUBATO_ADAPTERS_RING_CONTRACT_H_

#include <cstdint>
#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "absl/time/time.h"
#include "rubato/adapters/ring/fd.h"

namespace rubato {

// Asks the member at `address`; `lobby` is a hash of the group's secret. UNAVAILABLE if nobody
// answers there within `timeout`.
absl::StatusOr<std::string> AskContract(const std::string& address, uint64_t lobby,
                                        absl::Duration timeout);
// The answer; closes the connection. Does not wait: a text that fits no socket buffer is cut off.
void TellContract(const Fd& socket, absl::string_view contract);

// FAILED_PRECONDITION that names `address` and the first lines that differ.
absl::Status CompareContracts(absl::string_view mine, absl::string_view theirs,
                              const std::string& address);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_CONTRACT_H_
