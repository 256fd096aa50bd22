// Where packets to an address go. Names are looked up beside the caller, who must not wait for a
// slow name server: until there is an answer, a packet there is lost, which its sender expects.
#ifndef RUBATO_ADAPTERS_RING_RESOLVER_H_
#define RUBATO_ADAPTERS_RING_RESOLVER_H_

#include <netinet/in.h>

#include <memory>
#include <optional>
#include <string>

namespace rubato {

class Resolver {
 public:
  Resolver();
  ~Resolver();

  // Of "HOST:PORT" or what Endpoint::ToString() wrote; nothing if it is not known yet.
  std::optional<sockaddr_in> Find(const std::string& address);

 private:
  struct Names;
  std::shared_ptr<Names> names_;  // A look-up may outlive its Resolver.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_RESOLVER_H_
