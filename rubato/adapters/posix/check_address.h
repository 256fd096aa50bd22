// Whether an address is one, and whether one can listen there: asked before anything is begun, so
// that the answer is in words for people. gRPC takes port 99999 for another one, and says of a
// taken one in which lines of its sources it noticed.
#ifndef RUBATO_ADAPTERS_POSIX_CHECK_ADDRESS_H_
#define RUBATO_ADAPTERS_POSIX_CHECK_ADDRESS_H_

#include "absl/status/status.h"
#include "absl/strings/string_view.h"

namespace rubato {

// INVALID_ARGUMENT unless `address` is "unix:/path" or "host:port".
absl::Status CheckAddress(absl::string_view address);

// Also listens there for a moment. NOT_FOUND if the socket's folder is missing, INVALID_ARGUMENT
// if the host is unknown, UNAVAILABLE if somebody else listens.
absl::Status CheckListenAddress(absl::string_view address);

// Of where a server listens, which it announces for others to dial: INVALID_ARGUMENT if that is
// every address of the machine, and so none. A host that is unknown is for whoever listens to tell.
absl::Status CheckReachable(absl::string_view address);

// As SocketAddress::StaysHere() says; not of what is no address.
bool StaysHere(absl::string_view address);

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_CHECK_ADDRESS_H_
