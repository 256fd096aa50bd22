// The thread that keeps a Peer: packets in and out, timers, ended processes, new connections.
//
// The training thread calls the peer through Call(), which holds the lock and sends what comes out
// of it. Whatever the peer decides about views is queued as events, in order, and shown at
// once through Attention, so that a collective under way stops.
#ifndef RUBATO_ADAPTERS_RING_CONTROL_LOOP_H_
#define RUBATO_ADAPTERS_RING_CONTROL_LOOP_H_

#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include <netinet/in.h>

#include "absl/time/time.h"
#include "rubato/adapters/ring/data_plane.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/adapters/tls/sealed_datagrams.h"
#include "rubato/adapters/tls/tls_links.h"
#include "rubato/base/mutex.h"
#include "rubato/ring/company.h"
#include "rubato/ring/peer.h"

namespace rubato {

class ControlLoop {
 public:
  struct Options {
    PeerOptions peer;
    // Called once, before anything moves: makes the data planes, and says where this member is.
    std::function<Endpoint(const Attention&)> prepare;
    std::vector<std::string> join;  // Empty: found a group, or ask the master for one.
    int64_t step = 0;               // A founder's; -1: it has no state to found one with.
    // For the master, where it issues the views. Called on the loop's thread, without its lock.
    std::function<void(const ViewReport&)> report;
    uint64_t seed = 0;
    uint64_t lobby = 0;  // In place of the group, from whoever asks for the contract.
    // A connection with this greeting came in.
    std::function<void(const EdgeHello&, std::unique_ptr<Stream>)> arrived;
    // Both null: what is said can be read by anyone. Else both are there.
    const TlsLinks* tls = nullptr;
    std::unique_ptr<SealedDatagrams> datagrams;
    Resolver* names = nullptr;  // Must be there, and live longer.
  };

  ControlLoop(Options options, Sockets sockets);
  // Says farewell to the others and joins the thread.
  ~ControlLoop();

  // Runs `what` on the peer under the lock.
  template <typename F>
  auto Call(F what) {
    MutexLock lock(mu_);
    const absl::Time wake = peer_->next_wake();
    auto result = what(*peer_, Now());
    Flush();
    if (peer_->next_wake() < wake || !reports_.empty()) Wake();
    return result;
  }

  struct Event : Peer::Event {
    absl::Time at;  // When it happened; the training thread may be late to hear of it.
  };
  // The next event, once there is one; nothing if `timeout` passes first. Taking the last one, if
  // it is a view, makes that view live.
  std::optional<Event> NextEvent(absl::Duration timeout);
  // Begins a new life after a kFenced event, and joins the group again. The weights are those after
  // `step`, should a master need a founder; -1: they are worth nothing.
  MemberId StartNewLife(int64_t step);
  // This life ends, and from the next one on this member shares no memory.
  void StopSharing();

  // The group has done what it was for: see Peer::Finish.
  void Finish();
  // What this process has heard of the group, in all of its lives.
  Company company();

  // The loop has ended: returns when this member may go (Peer::MayGo).
  void Close();

  // Ends the live view for the training threads, so that a collective under way stops.
  void Halt();

  const Attention& attention() const { return attention_; }
  static absl::Time Now();

 private:
  struct Greeting {  // A connection that has not yet said what it wants.
    std::unique_ptr<Stream> stream;
    EdgeHello hello;
    size_t got = 0;
    absl::Time give_up;
  };

  void Wake();
  void Run();
  void Begin(int64_t step, std::vector<std::string> addresses) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  // Sends packets and queues events.
  void Flush() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void Show(uint64_t live_view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void WatchProcesses(const GroupView& view) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadErrors() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void ReadPackets() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_);
  void AcceptConnections();
  void ReadGreetings(absl::Time now);
  // Whether there is more to come.
  static bool ReadGreeting(Greeting& greeting);

  const Options options_;
  Sockets sockets_;
  Endpoint self_;  // Changed under the lock.
  Fd spare_fd_;    // Given up for a moment when there are no more: see AcceptConnections.
  Fd wake_fd_;
  Fd attention_fd_;
  Attention attention_;
  std::vector<Greeting> greetings_;  // The control thread's own.

  Mutex mu_;
  CondVar changed_;
  std::unique_ptr<Peer> peer_ ABSL_GUARDED_BY(mu_);
  std::deque<Event> events_ ABSL_GUARDED_BY(mu_);
  std::vector<ViewReport> reports_ ABSL_GUARDED_BY(mu_);
  std::map<MemberId, Fd> processes_ ABSL_GUARDED_BY(mu_);  // pidfds of members on this node.
  uint64_t lives_ ABSL_GUARDED_BY(mu_) = 0;
  Company company_ ABSL_GUARDED_BY(mu_);
  bool closing_ ABSL_GUARDED_BY(mu_) = false;
  bool stopping_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_RING_CONTROL_LOOP_H_
