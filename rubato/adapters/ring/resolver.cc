#include "rubato/adapters/ring/resolver.h"

#include <arpa/inet.h>

#include <map>
#include <system_error>
#include <thread>

#include "absl/status/statusor.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/mutex.h"

namespace rubato {
namespace {

// A name that was not found is asked for again after this long.
constexpr absl::Duration kAskAgain = absl::Seconds(2);

}  // namespace

struct Resolver::Names {
  struct Name {
    std::optional<sockaddr_in> address;
    bool asked = false;  // A look-up is under way.
    absl::Time ask_again = absl::InfinitePast();
  };
  Mutex mu;
  std::map<std::string, Name> all ABSL_GUARDED_BY(mu);

  void Learn(const std::string& text, const absl::StatusOr<sockaddr_in>& found) {
    MutexLock lock(mu);
    Name& name = all[text];
    name.asked = false;
    name.ask_again = absl::Now() + kAskAgain;
    if (found.ok()) name.address = *found;
  }
};

Resolver::Resolver() : names_(std::make_shared<Names>()) {}
Resolver::~Resolver() = default;

std::optional<sockaddr_in> Resolver::Find(const std::string& address) {
  {
    MutexLock lock(names_->mu);
    Names::Name& name = names_->all[address];
    if (name.address || name.asked || absl::Now() < name.ask_again) return name.address;
    name.asked = true;
  }
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(address);
  in_addr number;
  if (!endpoint.ok() || inet_pton(AF_INET, endpoint->host.c_str(), &number) == 1) {
    names_->Learn(address, endpoint.ok() ? Resolve(*endpoint) : endpoint.status());
  } else {
    try {
      std::thread([names = names_, address, endpoint = *endpoint] {
        names->Learn(address, Resolve(endpoint));
      }).detach();
    } catch (const std::system_error&) {  // No thread to be had: later.
      names_->Learn(address, absl::ResourceExhaustedError("no thread"));
    }
  }
  MutexLock lock(names_->mu);
  return names_->all[address].address;
}

}  // namespace rubato
