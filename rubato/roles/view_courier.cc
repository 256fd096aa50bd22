#include "rubato/roles/view_courier.h"

#include <cstdio>
#include <utility>

#include "absl/time/clock.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

constexpr absl::Duration kListen = absl::Milliseconds(200);
constexpr absl::Duration kRetry = absl::Milliseconds(10);

}  // namespace

ViewCourier::ViewCourier(Options options)
    : options_(std::move(options)),
      sender_(MasterClient::Dial(options_.master, absl::Seconds(1))),
      listener_(MasterClient::Dial(options_.master, absl::Seconds(1))),
      sending_([this] { SendReports(); }),
      listening_([this] { AwaitOrders(); }) {}

ViewCourier::~ViewCourier() {
  {
    MutexLock lock(mu_);
    closing_ = true;
    changed_.NotifyAll();
  }
  sending_.join();
  listening_.join();
}

void ViewCourier::Send(const ViewReport& report) {
  MutexLock lock(mu_);
  report_ = report;
  changed_.NotifyAll();
}

void ViewCourier::SendReports() {
  while (true) {
    ViewReport report;
    {
      MutexLock lock(mu_);
      while (!report_.has_value() && !closing_) changed_.Wait(mu_);
      if (closing_) return;
      report = *std::exchange(report_, std::nullopt);
    }
    const absl::StatusOr<ConferReply> reply = sender_->Confer({.worker = options_.worker,
                                                               .generation = options_.generation,
                                                               .report = EncodeReport(report)});
    if (reply.ok()) {
      Deliver(*reply);
      continue;
    }
    MutexLock lock(mu_);
    if (!report_.has_value()) report_ = std::move(report);  // The same again, unless there is news.
    changed_.WaitFor(mu_, kRetry);
  }
}

void ViewCourier::AwaitOrders() {
  while (true) {
    ConferRequest request = {.worker = options_.worker,
                             .generation = options_.generation,
                             .wait_ms = absl::ToInt64Milliseconds(kListen)};
    {
      MutexLock lock(mu_);
      if (closing_) return;
      request.known = known_;
    }
    const absl::StatusOr<ConferReply> reply = listener_->Confer(request);
    if (reply.ok()) {
      Deliver(*reply);
      continue;
    }
    MutexLock lock(mu_);
    if (!closing_) changed_.WaitFor(mu_, kRetry);
  }
}

void ViewCourier::Deliver(const ConferReply& reply) {
  {
    MutexLock lock(mu_);
    // A restarted master counts anew.
    if (reply.order.empty() || reply.number == known_ || closing_) return;
    known_ = reply.number;
  }
  const absl::StatusOr<ViewOrder> order = DecodeOrder(reply.order);
  if (order.ok()) return options_.deliver(*order);
  std::fprintf(stderr, "worker %d: an order of the master cannot be obeyed: %s\n",
               static_cast<int>(options_.worker.value()), order.status().ToString().c_str());
}

}  // namespace rubato
