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
#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/tls/tls_links.h"

namespace rubato {

// Asks the member at `address`; `lobby` is a hash of the group's secret, `tls` null where links are
// not encrypted. UNAVAILABLE if nobody answers there within `timeout`, or hangs up without a word,
// as one does that is short of files; PERMISSION_DENIED if whoever answers has another secret, or
// encrypts where this member does not, or the reverse.
absl::StatusOr<std::string> AskContract(const std::string& address, uint64_t lobby,
                                        const TlsLinks* tls, absl::Duration timeout,
                                        Resolver& names);
// The answer; closes the connection. Does not wait: a text that fits no socket buffer is cut off.
// `full`: the group has as many members as there may be, which is one more line.
void TellContract(Stream& stream, const std::string& contract, bool full = false);
// Whether an answer says so; it is the contract without that, then.
bool TakeFull(std::string& answer);

// For a greeting that a plain member did not understand: whoever speaks TLS is told that it does
// not.
void TellPlain(Stream& stream, absl::string_view greeting);

// FAILED_PRECONDITION that names `address` and the first lines that differ.
absl::Status CompareContracts(absl::string_view mine, absl::string_view theirs,
                              const std::string& address);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_CONTRACT_H_
