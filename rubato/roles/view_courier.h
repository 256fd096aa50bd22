// Carries a member's reports to the master that issues its group's views, and the master's orders
// back. Both are whole states, so only the newest of each counts and any may be lost.
#ifndef RUBATO_ROLES_VIEW_COURIER_H_
#define RUBATO_ROLES_VIEW_COURIER_H_

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include "rubato/adapters/grpc/master_client.h"
#include "rubato/base/ids.h"
#include "rubato/base/mutex.h"
#include "rubato/membership/issued_views.h"

namespace rubato {

// Two threads: one brings reports as they come, the other waits at the master for orders. A change
// of view then costs one call of each survivor, and no timer.
class ViewCourier {
 public:
  struct Options {
    std::string master;
    WorkerId worker;
    int64_t generation = 0;
    std::function<void(const ViewOrder&)> deliver;  // Called by both threads.
  };
  explicit ViewCourier(Options options);
  ~ViewCourier();

  // Never blocks. A report not yet sent is replaced.
  void Send(const ViewReport& report);

 private:
  void SendReports();
  void AwaitOrders();
  void Deliver(const ConferReply& reply);

  const Options options_;
  const std::unique_ptr<MasterClient> sender_, listener_;
  Mutex mu_;
  CondVar changed_;
  std::optional<ViewReport> report_ ABSL_GUARDED_BY(mu_);
  int64_t known_ ABSL_GUARDED_BY(mu_) = 0;  // Orders delivered, as the master counts them.
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  std::thread sending_, listening_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_VIEW_COURIER_H_
