#include "rubato/adapters/ring/control_loop.h"

#include <fcntl.h>
#include <linux/errqueue.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cstring>
#include <optional>
#include <utility>

#include "rubato/adapters/ring/contract.h"

namespace rubato {
namespace {

constexpr absl::Duration kGreetingTime = absl::Seconds(2);
constexpr size_t kGreetingsMax = 256;

void Signal(const Fd& event) {
  const uint64_t one = 1;
  if (write(event.get(), &one, sizeof(one)) < 0) return;  // Full means signalled already.
}

void Clear(const Fd& event) {
  uint64_t count;
  if (read(event.get(), &count, sizeof(count)) < 0) return;
}

Fd OpenSpare() { return Fd(open("/dev/null", O_RDONLY | O_CLOEXEC)); }

}  // namespace

ControlLoop::ControlLoop(Options options, Sockets sockets)
    : options_(std::move(options)),
      sockets_(std::move(sockets)),
      spare_fd_(OpenSpare()),
      wake_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)),
      attention_fd_(eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC)) {
  attention_.event_fd = attention_fd_.get();
  const int on = 1;
  setsockopt(sockets_.packets.get(), IPPROTO_IP, IP_RECVERR, &on, sizeof(on));
  self_ = options_.prepare(attention_);
  {
    MutexLock lock(mu_);
    Begin(options_.step, options_.join);
  }
  thread_ = std::thread([this] { Run(); });
}

ControlLoop::~ControlLoop() {
  {
    MutexLock lock(mu_);
    peer_->Farewell(Now());
    Flush();
    stopping_ = true;
  }
  Signal(wake_fd_);
  thread_.join();
}

// The real clock may be set; a detector must not see that.
absl::Time ControlLoop::Now() {
  return absl::UnixEpoch() + absl::FromChrono(std::chrono::steady_clock::now().time_since_epoch());
}

void ControlLoop::Begin(int64_t step, std::vector<std::string> addresses) {
  const MemberId id(static_cast<int64_t>(Mix(options_.seed, ++lives_) >> 1));
  peer_ = std::make_unique<Peer>(GroupMember{id, self_.ToString()}, options_.peer,
                                 Mix(options_.seed, lives_ + 1000));
  const bool founds = options_.peer.issued ? step >= 0 : addresses.empty();
  if (founds) peer_->Found(step, Now());
  if (!addresses.empty() || options_.peer.issued) peer_->Join(std::move(addresses), Now());
  Flush();
}

MemberId ControlLoop::StartNewLife(int64_t step) {
  MutexLock lock(mu_);
  std::vector<std::string> addresses = options_.join;
  for (const GroupMember& member : peer_->swim().Living()) addresses.push_back(member.address);
  for (const GroupMember& member : peer_->view().members) addresses.push_back(member.address);
  events_.clear();
  company_.Note(*peer_, Now());
  Begin(step, std::move(addresses));
  Signal(wake_fd_);
  return peer_->self().id;
}

void ControlLoop::Finish() {
  MutexLock lock(mu_);
  peer_->Finish(Now());
  Flush();
}

Company ControlLoop::company() {
  MutexLock lock(mu_);
  company_.Note(*peer_, Now());
  return company_;
}

void ControlLoop::StopSharing() {
  MutexLock lock(mu_);
  peer_->Farewell(Now());
  Flush();
  self_.memory_fd = -1;
}

std::optional<ControlLoop::Event> ControlLoop::NextEvent(absl::Duration timeout) {
  const absl::Time deadline = Now() + timeout;
  MutexLock lock(mu_);
  while (events_.empty()) {
    const absl::Duration left = deadline - Now();
    if (left <= absl::ZeroDuration()) return std::nullopt;
    changed_.WaitFor(mu_, left);
  }
  Event event = std::move(events_.front());
  events_.pop_front();
  if (events_.empty() && event.kind == Peer::Event::Kind::kView) Show(event.view.number);
  return event;
}

void ControlLoop::Close() {
  MutexLock lock(mu_);
  closing_ = true;
  peer_->Close(Now());
  Flush();
  Wake();  // It has its own times to wake from now on.
  while (!peer_->MayGo(Now())) changed_.Wait(mu_);
}

void ControlLoop::Halt() {
  MutexLock lock(mu_);
  Show(0);
}

void ControlLoop::Wake() { Signal(wake_fd_); }

void ControlLoop::Show(uint64_t live_view) {
  attention_.live_view.store(live_view, std::memory_order_release);
  if (live_view == 0) {
    Signal(attention_fd_);
  } else {
    Clear(attention_fd_);
  }
}

void ControlLoop::Flush() {
  for (Peer::Event& event : peer_->TakeEvents()) {
    const bool view = event.kind == Peer::Event::Kind::kView;
    if (view) WatchProcesses(event.view);
    // The training thread must not touch a new view before it has taken this event.
    Show(0);
    events_.push_back({std::move(event), Now()});
    changed_.NotifyAll();
  }
  if (auto report = peer_->TakeReport(Now())) reports_.push_back(*std::move(report));
  for (const Peer::Send& send : peer_->TakeSends()) {
    const std::optional<sockaddr_in> to = options_.names->Find(send.to);
    if (!to) continue;
    std::string bytes = EncodePacket(send.packet);
    if (options_.datagrams) bytes = options_.datagrams->Seal(bytes);
    // A full buffer or a dead host loses a packet, which the protocol expects. An error of an
    // earlier packet is told in place of sending this one.
    for (int attempt = 0; attempt < 2; ++attempt) {
      const ssize_t sent =
          sendto(sockets_.packets.get(), bytes.data(), bytes.size(), MSG_DONTWAIT | MSG_NOSIGNAL,
                 reinterpret_cast<const sockaddr*>(&*to), sizeof(*to));
      if (sent >= 0 || errno != ECONNREFUSED) break;
    }
  }
}

// A packet to a port that nobody has open any more comes back as an error: the process there has
// ended, and its machine says so, as it would to a connection. This is how survivors on other
// machines learn at once of deaths that none of their own connections shows.
void ControlLoop::ReadErrors() {
  for (int i = 0; i < 256; ++i) {
    sockaddr_in to{};
    char control[512];
    msghdr message{};
    message.msg_name = &to;
    message.msg_namelen = sizeof(to);
    message.msg_control = control;
    message.msg_controllen = sizeof(control);
    if (recvmsg(sockets_.packets.get(), &message, MSG_ERRQUEUE | MSG_DONTWAIT) < 0) return;
    const cmsghdr* part = CMSG_FIRSTHDR(&message);
    if (part == nullptr || part->cmsg_level != IPPROTO_IP || part->cmsg_type != IP_RECVERR)
      continue;
    sock_extended_err error;
    std::memcpy(&error, CMSG_DATA(part), sizeof(error));
    options_.names->Refused(to);
    if (error.ee_errno != ECONNREFUSED) continue;
    const std::vector<GroupMember> members = peer_->view().members;
    for (const GroupMember& member : members) {
      const std::optional<sockaddr_in> known = options_.names->Find(member.address);
      if (member.id == peer_->self().id || !known) continue;
      if (known->sin_port != to.sin_port) continue;
      if (known->sin_addr.s_addr != to.sin_addr.s_addr) continue;
      peer_->ReportLost(member.id, LossReason::kRefused, Now());
    }
  }
}

void ControlLoop::WatchProcesses(const GroupView& view) {
  std::erase_if(processes_, [&](const auto& entry) { return !view.Contains(entry.first); });
  for (const GroupMember& member : view.members) {
    const absl::StatusOr<Endpoint> endpoint = ParseEndpoint(member.address);
    if (member.id == peer_->self().id || processes_.contains(member.id) || !endpoint.ok()) continue;
    if (endpoint->node != self_.node || endpoint->pid <= 0) continue;
    Fd process(static_cast<int>(syscall(SYS_pidfd_open, endpoint->pid, 0)));
    if (process.valid()) processes_[member.id] = std::move(process);
  }
}

void ControlLoop::Run() {
  std::vector<pollfd> fds;
  std::vector<MemberId> watched;
  std::vector<ViewReport> reports;
  while (true) {
    absl::Duration sleep;
    fds = {{sockets_.packets.get(), POLLIN, 0},
           {sockets_.listener.get(), POLLIN, 0},
           {wake_fd_.get(), POLLIN, 0}};
    watched.clear();
    {
      MutexLock lock(mu_);
      if (stopping_) return;
      reports.swap(reports_);
      sleep = std::max(absl::ZeroDuration(), peer_->next_wake() - Now());
      for (const auto& [id, process] : processes_) {
        fds.push_back({process.get(), POLLIN, 0});
        watched.push_back(id);
      }
    }
    for (const ViewReport& report : reports) options_.report(report);
    reports.clear();
    for (const Greeting& greeting : greetings_) {
      fds.push_back({greeting.stream->fd(), greeting.stream->wants(), 0});
    }
    const int64_t sleep_ms = absl::ToInt64Milliseconds(sleep) + 1;
    poll(fds.data(), fds.size(), static_cast<int>(std::min<int64_t>(sleep_ms, 1000)));
    Clear(wake_fd_);
    AcceptConnections();
    ReadGreetings(Now());
    MutexLock lock(mu_);
    for (size_t i = 0; i < watched.size(); ++i) {
      if (fds[3 + i].revents == 0) continue;
      processes_.erase(watched[i]);
      peer_->ReportLost(watched[i], LossReason::kProcess, Now());
    }
    ReadErrors();
    ReadPackets();
    if (Now() >= peer_->next_wake()) peer_->Tick(Now());
    company_.Note(*peer_, Now());  // Whoever asks may do so long after it was there.
    Flush();
    if (closing_) changed_.NotifyAll();
  }
}

void ControlLoop::ReadPackets() {
  char buffer[65536];
  for (int i = 0; i < 256; ++i) {
    sockaddr_in source{};
    socklen_t length = sizeof(source);
    const ssize_t n = recvfrom(sockets_.packets.get(), buffer, sizeof(buffer), MSG_DONTWAIT,
                               reinterpret_cast<sockaddr*>(&source), &length);
    if (n < 0 && errno == ECONNREFUSED) continue;  // See ReadErrors.
    if (n <= 0) return;
    std::optional<std::string> opened;
    absl::string_view bytes(buffer, static_cast<size_t>(n));
    if (options_.datagrams) {
      opened = options_.datagrams->Open(bytes);
      if (!opened) continue;
      bytes = *opened;
    }
    const auto packet = DecodePacket(bytes);
    if (!packet.ok()) continue;
    if (packet->group == options_.peer.group) options_.names->Heard(packet->from.address, source);
    peer_->Receive(*packet, Now());
  }
}

void ControlLoop::AcceptConnections() {
  while (true) {
    Fd socket(accept4(sockets_.listener.get(), nullptr, nullptr, SOCK_NONBLOCK | SOCK_CLOEXEC));
    if (!socket.valid() && errno == EMFILE && spare_fd_.valid()) {
      // It would stand at the door for ever, and poll would never sleep again.
      spare_fd_.Close();
      socket = Fd(accept4(sockets_.listener.get(), nullptr, nullptr, SOCK_CLOEXEC));
      const bool refused = socket.valid();
      socket.Close();
      spare_fd_ = OpenSpare();
      if (refused) continue;
    }
    if (!socket.valid()) return;
    if (greetings_.size() >= kGreetingsMax) greetings_.erase(greetings_.begin());
    greetings_.push_back({MakeStream(options_.tls, TlsSide::kAccepts, std::move(socket)),
                          EdgeHello(), 0, Now() + kGreetingTime});
  }
}

bool ControlLoop::ReadGreeting(Greeting& greeting) {
  char* const bytes = reinterpret_cast<char*>(&greeting.hello);
  int64_t n = 1;
  while (n > 0 && greeting.got < sizeof(EdgeHello)) {
    n = greeting.stream->ReadBytes(bytes + greeting.got, sizeof(EdgeHello) - greeting.got);
    if (n > 0) greeting.got += static_cast<size_t>(n);
  }
  return n == Stream::kWait;
}

void ControlLoop::ReadGreetings(absl::Time now) {
  for (auto it = greetings_.begin(); it != greetings_.end();) {
    if (ReadGreeting(*it) && now < it->give_up) {
      ++it;
      continue;
    }
    const bool asks = it->hello.kind == EdgeHello::kContract;
    if (it->got == sizeof(EdgeHello) &&
        it->hello.group == (asks ? options_.lobby : options_.peer.group)) {
      options_.arrived(it->hello, std::move(it->stream));
    } else if (options_.tls == nullptr) {
      TellPlain(*it->stream, {reinterpret_cast<const char*>(&it->hello), it->got});
    }
    it = greetings_.erase(it);
  }
}

}  // namespace rubato
