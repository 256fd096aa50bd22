// What a newcomer finds out from those it wants to join while they have yet to let it in: whether
// they train the same, or why that is not known. The training thread owns it.
#ifndef RUBATO_ADAPTERS_RING_LOBBY_H_
#define RUBATO_ADAPTERS_RING_LOBBY_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/time/time.h"
#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/tls/tls_links.h"

namespace rubato {

class Lobby {
 public:
  struct Options {
    std::vector<std::string> join;  // Empty: there is nobody to ask.
    std::string contract;
    uint64_t key = 0;               // What AskContract calls `lobby`.
    const TlsLinks* tls = nullptr;  // May be null, and must live longer.
    absl::Duration patience;        // For one answer.
    Resolver* names = nullptr;      // Must be there, and live longer.
  };
  explicit Lobby(Options options) : options_(std::move(options)) {}

  // Asks, once a second at most, whether they train the same, and, now and then, whether there is
  // room. FAILED_PRECONDITION if not, or if they have turned this member away a few times in a row.
  absl::Status Ask(absl::Time now);
  // What came of it, to be put behind "no view to train in": empty, or "; nobody answers at ...".
  // `unheard`: for how long nobody of any view has been heard of, while this member waits.
  std::string Why(absl::Duration unheard = absl::ZeroDuration()) const;

 private:
  const Options options_;
  bool known_ = false;  // To be the same.
  absl::Time ask_again_ = absl::InfinitePast();
  std::string unanswered_;
  int refused_ = 0;  // How often in a row,
  int full_ = 0;     // and how often there was no room.
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_LOBBY_H_
