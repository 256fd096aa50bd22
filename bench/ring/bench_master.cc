#include "bench/ring/bench_master.h"

#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdio>
#include <cstring>
#include <map>
#include <utility>

#include "bench/ring/fleet.h"
#include "rubato/membership/view_authority.h"
#include "rubato/membership/wire.h"

namespace rubato {
namespace {

constexpr size_t kDatagramMax = 64 << 10;

absl::Time Now() { return absl::FromUnixNanos(NowNanos()); }

// Where each member writes from, which is where it reads.
using Places = std::map<MemberId, sockaddr_in>;

void ReadReports(int fd, ViewAuthority& authority, Places& places) {
  std::string bytes(kDatagramMax, '\0');
  while (true) {
    sockaddr_in from{};
    socklen_t length = sizeof(from);
    const ssize_t n = recvfrom(fd, bytes.data(), bytes.size(), MSG_DONTWAIT,
                               reinterpret_cast<sockaddr*>(&from), &length);
    if (n <= 0) return;
    const auto report = DecodeReport({bytes.data(), static_cast<size_t>(n)});
    if (!report.ok()) continue;
    places[report->from.id] = from;
    authority.Receive(*report, Now()).IgnoreError();
  }
}

// A view is on disk before anyone hears of it.
bool Write(FILE* journal, const std::vector<ViewAuthority::Decision>& decisions) {
  for (const ViewAuthority::Decision& decision : decisions) {
    const std::string bytes = EncodeGroupView(decision.view);
    std::fwrite(bytes.data(), 1, bytes.size(), journal);
  }
  return decisions.empty() || (std::fflush(journal) == 0 && fdatasync(fileno(journal)) == 0);
}

}  // namespace

DatagramSocket::DatagramSocket() : fd(socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0)) {
  address.sin_family = AF_INET;
  address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  socklen_t length = sizeof(address);
  auto* const any = reinterpret_cast<sockaddr*>(&address);
  if (bind(fd, any, length) != 0 || getsockname(fd, any, &length) != 0) std::perror("bind");
}

DatagramSocket::~DatagramSocket() { close(fd); }

int RunBenchMaster(const DatagramSocket& here) {
  const int fd = here.fd;
  FILE* const journal = std::tmpfile();
  if (journal == nullptr) return 1;
  ViewAuthority authority(AuthorityOptions(), GroupView(), Now());
  Places places;
  while (true) {
    ReadReports(fd, authority, places);
    authority.Tick(Now());
    if (!Write(journal, authority.TakeDecisions())) return 1;
    for (const ViewAuthority::Send& send : authority.TakeOrders()) {
      const auto place = places.find(send.to.id);
      if (place == places.end()) continue;
      const std::string bytes = EncodeOrder(send.order);
      sendto(fd, bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
             reinterpret_cast<const sockaddr*>(&place->second), sizeof(place->second));
    }
    const absl::Duration sleep = std::clamp(authority.next_wake() - Now(), absl::ZeroDuration(),
                                            absl::Duration(absl::Seconds(1)));
    pollfd readable{fd, POLLIN, 0};
    poll(&readable, 1, static_cast<int>(absl::ToInt64Milliseconds(sleep)) + 1);
  }
}

BenchCourier::~BenchCourier() {
  stopping_ = true;
  if (thread_.joinable()) thread_.join();
}

void BenchCourier::Send(const ViewReport& report) {
  const std::string bytes = EncodeReport(report);
  sendto(here_.fd, bytes.data(), bytes.size(), MSG_NOSIGNAL,
         reinterpret_cast<const sockaddr*>(&master_), sizeof(master_));
}

void BenchCourier::Start(std::function<void(const ViewOrder&)> deliver) {
  thread_ = std::thread([this, deliver = std::move(deliver)] {
    std::string bytes(kDatagramMax, '\0');
    while (!stopping_) {
      pollfd readable{here_.fd, POLLIN, 0};
      if (poll(&readable, 1, 100) <= 0) continue;
      const ssize_t n = recv(here_.fd, bytes.data(), bytes.size(), 0);
      if (n <= 0) continue;
      const auto order = DecodeOrder({bytes.data(), static_cast<size_t>(n)});
      if (order.ok()) deliver(*order);
    }
  });
}

}  // namespace rubato
