// A master that does nothing but issue the views of a fleet: the real ViewAuthority in a process of
// its own, and datagrams in place of its connections.
//
//     member ── report ──▶ BenchMaster: a view to its journal, synced ── orders ──▶ members
#ifndef BENCH_RING_BENCH_MASTER_H_
#define BENCH_RING_BENCH_MASTER_H_

#include <netinet/in.h>

#include <atomic>
#include <functional>
#include <thread>

#include "rubato/membership/issued_views.h"

namespace rubato {

// At a free port of this machine.
struct DatagramSocket {
  DatagramSocket();
  DatagramSocket(const DatagramSocket&) = delete;
  ~DatagramSocket();
  const int fd;
  sockaddr_in address{};
};

// Serves there until it is killed; the exit status of its process.
int RunBenchMaster(const DatagramSocket& here);

// A member's way to it.
class BenchCourier {
 public:
  explicit BenchCourier(const sockaddr_in& master) : master_(master) {}
  ~BenchCourier();
  void Send(const ViewReport& report);
  // Takes orders from now on, on a thread of its own.
  void Start(std::function<void(const ViewOrder&)> deliver);

 private:
  const sockaddr_in master_;
  const DatagramSocket here_;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

}  // namespace rubato

#endif  // BENCH_RING_BENCH_MASTER_H_
