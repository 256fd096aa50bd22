// Where packets to an address go. Names are looked up beside the caller, who must not wait for a
// slow name server: until there is an answer, a packet there is lost, which its sender expects. All
// threads of a group share one, so that a connection finds what packets have asked for.
//
// A host may come back with another address. So a name is looked up again when nobody answers at
// what it stood for, when packets are refused there, or when who bears it writes from elsewhere;
// the old address serves until there is a new one. Each time that brings nothing new doubles the
// wait for the next, from seconds up to a minute.
#ifndef RUBATO_ADAPTERS_RING_RESOLVER_H_
#define RUBATO_ADAPTERS_RING_RESOLVER_H_

#include <netinet/in.h>

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace rubato {

// Any thread may use it.
class Resolver {
 public:
  explicit Resolver(std::function<absl::Time()> now = absl::Now);
  ~Resolver();

  // Of "HOST:PORT" or what Endpoint::ToString() wrote; nothing if it is not known yet.
  std::optional<sockaddr_in> Find(const std::string& address);
  // For one that has nothing to do before it is known: asks every few milliseconds, while
  // `patient` says so.
  std::optional<sockaddr_in> Await(const std::string& address,
                                   const std::function<bool()>& patient);
  // Who says to be at `address` has sent something from `source`.
  void Heard(const std::string& address, const sockaddr_in& source);
  // Nobody takes packets at `place`.
  void Refused(const sockaddr_in& place);

 private:
  struct Names;
  std::shared_ptr<Names> names_;  // A look-up may outlive its Resolver.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_RESOLVER_H_
