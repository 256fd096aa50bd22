#include "rubato/adapters/ring/resolver.h"

#include <arpa/inet.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <system_error>
#include <thread>
#include <utility>

#include "absl/status/statusor.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/base/mutex.h"

namespace rubato {
namespace {

// Between two look-ups of a name that is not found, or has not changed.
constexpr absl::Duration kAskAgain = absl::Seconds(2);
constexpr absl::Duration kAskAgainMax = absl::Minutes(1);
// Nobody having answered there for so long, a name may have come to mean another place.
constexpr absl::Duration kSilence = absl::Seconds(5);
constexpr std::chrono::milliseconds kLookAgain(2);

bool SamePlace(const sockaddr_in& a, const sockaddr_in& b) {
  return a.sin_addr.s_addr == b.sin_addr.s_addr && a.sin_port == b.sin_port;
}

// HOST:PORT: whoever comes to a place after another finds it by the same name.
std::string PlaceOf(const std::string& address) { return address.substr(0, address.find(';')); }

}  // namespace

struct Resolver::Names {
  struct Name {
    std::optional<sockaddr_in> address;
    bool number = false;    // And never changes.
    bool asked = false;     // A look-up is under way.
    bool doubted = false;   // It may mean another place by now.
    absl::Time good_until;  // The address: someone answers there.
    absl::Time ask_again = absl::InfinitePast();
    absl::Duration wait = kAskAgain;
  };
  const std::function<absl::Time()> now;
  Mutex mu;
  std::map<std::string, Name> all ABSL_GUARDED_BY(mu);

  explicit Names(std::function<absl::Time()> now) : now(std::move(now)) {}

  void Learn(const std::string& place, const absl::StatusOr<sockaddr_in>& found) {
    MutexLock lock(mu);
    Name& name = all[place];
    const bool moved = found.ok() && !(name.address && SamePlace(*name.address, *found));
    name.wait = moved ? kAskAgain : std::min(name.wait * 2, kAskAgainMax);
    name.asked = name.doubted = false;
    name.ask_again = now() + name.wait;
    if (!found.ok()) return;
    name.address = *found;
    name.good_until = now() + kSilence;
  }
};

Resolver::Resolver(std::function<absl::Time()> now)
    : names_(std::make_shared<Names>(std::move(now))) {}
Resolver::~Resolver() = default;

std::optional<sockaddr_in> Resolver::Find(const std::string& address) {
  const std::string place = PlaceOf(address);
  const absl::Time now = names_->now();
  {
    MutexLock lock(names_->mu);
    Names::Name& name = names_->all[place];
    const bool good = name.address && (name.number || (!name.doubted && now < name.good_until));
    if (good || name.asked || now < name.ask_again) return name.address;
    name.asked = true;
  }
  const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(place);
  in_addr number;
  if (!endpoint.ok() || inet_pton(AF_INET, endpoint->host.c_str(), &number) == 1) {
    names_->Learn(place, endpoint.ok() ? Resolve(*endpoint) : endpoint.status());
    MutexLock lock(names_->mu);
    names_->all[place].number = endpoint.ok();
  } else {
    try {
      std::thread([names = names_, place, endpoint = *endpoint] {
        names->Learn(place, Resolve(endpoint));
      }).detach();
    } catch (const std::system_error&) {  // No thread to be had: later.
      names_->Learn(place, absl::ResourceExhaustedError("no thread"));
    }
  }
  MutexLock lock(names_->mu);
  return names_->all[place].address;
}

std::optional<sockaddr_in> Resolver::Await(const std::string& address,
                                           const std::function<bool()>& patient) {
  std::optional<sockaddr_in> place = Find(address);
  while (!place && patient()) {
    std::this_thread::sleep_for(kLookAgain);
    place = Find(address);
  }
  return place;
}

void Resolver::Heard(const std::string& address, const sockaddr_in& source) {
  MutexLock lock(names_->mu);
  const auto it = names_->all.find(PlaceOf(address));
  if (it == names_->all.end() || !it->second.address || it->second.number) return;
  Names::Name& name = it->second;
  if (!SamePlace(*name.address, source)) {
    name.doubted = true;
    return;
  }
  name.good_until = names_->now() + kSilence;
  name.wait = kAskAgain;
}

void Resolver::Refused(const sockaddr_in& place) {
  MutexLock lock(names_->mu);
  for (auto& [text, name] : names_->all) {
    if (name.address && SamePlace(*name.address, place)) name.doubted = true;
  }
}

}  // namespace rubato
