// What passes between a job's master and the supervisor that holds its processes: exits in,
// orders out. The supervisor carries orders out and decides nothing.
#ifndef RUBATO_MASTER_ORDERS_H_
#define RUBATO_MASTER_ORDERS_H_

#include <compare>
#include <cstdint>
#include <string>
#include <vector>

#include "rubato/master/messages.h"

namespace rubato {

struct ProcessKey {
  Role role = Role::kWorker;
  int64_t id = 0;
  int64_t incarnation = 0;
  friend auto operator<=>(const ProcessKey&, const ProcessKey&) = default;
};

enum class OrderKind { kLaunch, kTerminate, kKill };

struct Order {
  int64_t number = 0;  // Grows; a repeated order is recognised by it.
  OrderKind kind = OrderKind::kLaunch;
  ProcessKey process;
};

struct AttendRequest {
  std::vector<ExitNotice> exits;  // Repeated until a reply comes.
  int64_t wait_ms = 0;            // How long to wait for an order if there is none.
  int64_t orders_done = 0;        // Orders numbered up to this are carried out.
};

struct AttendReply {
  std::vector<Order> orders;
  Snapshot snapshot;
  bool finished = false;  // The job is over and everyone was told to leave.
};

}  // namespace rubato

#endif  // RUBATO_MASTER_ORDERS_H_
