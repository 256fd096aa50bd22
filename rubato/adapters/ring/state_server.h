// The state on its way from a holder to a newcomer, each on a thread of its own beside training.
#ifndef RUBATO_ADAPTERS_RING_STATE_SERVER_H_
#define RUBATO_ADAPTERS_RING_STATE_SERVER_H_

#include <atomic>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <vector>

#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/adapters/tls/fd.h"
#include "rubato/ring/state_copy.h"

namespace rubato {

inline constexpr uint32_t kStateChunkBytes = 1 << 20;

// Streams snapshots to whoever asked. The training thread owns it.
class StateServer {
 public:
  ~StateServer();
  // Finishes `snapshot` and sends it over `stream`, chunk by chunk, then closes that.
  void Serve(std::unique_ptr<Stream> stream, std::shared_ptr<StateSnapshot> snapshot);

 private:
  struct Copy {
    std::unique_ptr<Stream> stream;
    std::atomic<bool> done{false};
    std::thread thread;
  };
  std::vector<std::unique_ptr<Copy>> copies_;
};

// Fetches one snapshot. Begins at once; the destructor gives up.
class StateFetcher {
 public:
  // `tls` may be null; it and `names` must live longer.
  StateFetcher(const std::string& address, const EdgeHello& hello, const TlsLinks* tls,
               Resolver& names);
  ~StateFetcher();

  // The socket broke, or what came was not a state; begin another.
  bool failed() const { return outcome_.load(std::memory_order_acquire) < 0; }
  bool complete() const { return outcome_.load(std::memory_order_acquire) > 0; }
  // Of the snapshot; -1 until its first chunk is there.
  int64_t step() const { return step_.load(std::memory_order_acquire); }
  // So many have come.
  uint64_t bytes() const { return bytes_.load(std::memory_order_acquire); }
  // complete() must hold.
  std::string TakeSnapshot() { return sink_.TakeSnapshot(); }

 private:
  bool Fetch(const std::string& address, const EdgeHello& hello, Resolver& names);
  bool Connect(const std::string& address, Resolver& names);
  bool Read(void* data, size_t bytes);

  StateSink sink_;
  const int socket_;  // That of stream_.
  std::unique_ptr<Stream> stream_;
  std::atomic<bool> given_up_{false};
  std::atomic<int64_t> step_{-1};
  std::atomic<uint64_t> bytes_{0};
  std::atomic<int> outcome_{0};
  std::thread thread_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_STATE_SERVER_H_
