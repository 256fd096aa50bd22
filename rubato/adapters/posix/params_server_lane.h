// One thread of a parameter server, and the connections that fell to it.
//
//     listener ──▶ lane 0: connections 0, 2, ...   ┐ pulls side by side   ┌ shard
//              └─▶ lane 1: connections 1, 3, ...   ┘ everything else alone └ push log
//
// A connection stays on its lane, so its requests are answered in order. Pushes change the shard
// one at a time, in the order in which they are logged; pulls go on while one is logged.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_LANE_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_LANE_H_

#include <asio.hpp>
#include <atomic>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <vector>

#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/adapters/posix/params_server_store.h"
#include "rubato/adapters/posix/replica_lines.h"
#include "rubato/adapters/posix/replica_vault.h"
#include "rubato/adapters/posix/shared_area.h"
#include "rubato/base/mutex.h"
#include "rubato/base/shared_mutex.h"
#include "rubato/net/buffer.h"
#include "rubato/params/hot_ids.h"
#include "rubato/params/inspection.h"
#include "rubato/params/key_counts.h"
#include "rubato/params/move.h"
#include "rubato/params/shard.h"

namespace rubato {

// What the lanes of a server share.
struct ParamsServerState {
  explicit ParamsServerState(ParamsServerOptions made)
      : options(std::move(made)), links(options.secret) {}

  const ParamsServerOptions options;
  const FrameLinks links;
  SharedMutex mu;
  std::unique_ptr<ParamsStore> store ABSL_PT_GUARDED_BY(mu);
  std::unique_ptr<Shard> shard ABSL_PT_GUARDED_BY(mu);
  std::unique_ptr<MoveSource> source ABSL_PT_GUARDED_BY(mu);
  // A map could not be logged: nobody knows what we own until it is.
  bool behind ABSL_GUARDED_BY(mu) = false;
  // Whether requests must wait for the end of a move.
  bool holding() const ABSL_SHARED_LOCKS_REQUIRED(mu) { return behind || source->frozen(); }
  std::string last_error ABSL_GUARDED_BY(mu);
  int64_t strangers ABSL_GUARDED_BY(mu) = 0;
  std::string last_stranger ABSL_GUARDED_BY(mu);
  std::unique_ptr<ReplicaVault> vault;     // Copies of others' logs.
  std::unique_ptr<ReplicaLines> replicas;  // Of ours; null: none are wanted.
  std::atomic<int64_t> clients = 0;
  // Makes memory real on a thread apart, which ends before the shard does.
  std::function<void(const MemoryRange&)> prepare;
  std::function<ServerInspection()> inspect;  // For whoever asks; from any lane.
  std::function<void()> tidy;  // Something was forgotten, and is in the way; from any lane.
};

class ParamsServerLane {
 public:
  explicit ParamsServerLane(ParamsServerState& state) : state_(state) {}
  ~ParamsServerLane() { Join(); }

  void Start() {
    thread_ = std::thread([this] { io_.run(); });
  }
  asio::io_context& io() { return io_; }

  // From any thread. `socket` belongs to this lane's io().
  void Welcome(std::shared_ptr<FrameSocket> socket);
  // From any thread: greets those who came before the first view.
  void ViewIsSet();
  // From any thread: what was held may be answered now.
  void Release();
  // From any thread: a follower has more of the log, and what waited for that is acknowledged.
  void Replicated();
  // From any thread: closes every connection. Those that come later are not answered.
  void Close();
  // Ends the thread. Idempotent.
  void Join();
  // From any thread: how often which ids were pulled here.
  std::vector<HotId> HotIdsNow() {
    MutexLock lock(hot_mu_);
    return hot_.All();
  }
  // From any thread: adds the keys pulled and pushed here since the last time, by partition.
  void TakeLoadInto(std::vector<int64_t>& sums) {
    MutexLock lock(hot_mu_);
    keys_.TakeInto(sums);
  }

 private:
  struct Connection {
    int64_t number = 0;
    std::shared_ptr<FrameSocket> socket;
    bool greeted = false;
    uint64_t hello_id = 0;  // Waits for the first view, if `hello_waits`.
    std::string welcome;    // The body of the answer to the greeting.
    bool hello_waits = false;
    std::unique_ptr<SharedArea> requests, replies;  // Or null: all goes through the socket.
    std::optional<SharedRequest> shared;            // The request at hand, if it came that way.
    VaultLine copies;                               // Of another server, if it is one.
  };
  // A request that waits for the end of a move.
  struct Held {
    int64_t connection = 0;
    FrameHeader header;
    Buffer body;
  };
  // A reply that waits until the log up to `position` is on another disk too.
  struct Unconfirmed {
    LogPosition position;
    int64_t connection = 0;
    FrameHeader header;
    std::string body;
  };
  class BufferPool;
  class ReplyPlace;
  class LaneTurn;

  void Handle(Connection& connection, const Frame& frame);
  // Takes the memory that a client offers with its greeting, if it is as it must be.
  std::string Share(Connection& connection);
  void HandleShared(Connection& connection, const Frame& frame);
  absl::Status CheckHello(const Frame& frame) const;
  void Greet(Connection& connection, const Frame& frame);
  void Admit(Connection& connection, uint64_t id);
  // The answer to a pull is put together where the client wants it, if it fits there; null: it did
  // not say where.
  std::shared_ptr<Buffer> SharedReply(const Connection& connection) const;
  void SendPulled(Connection& connection, const FrameHeader& request,
                  std::shared_ptr<Buffer> reply);
  void Declare(Connection& connection, const Frame& frame);
  void Pull(Connection& connection, const Frame& frame);
  void Push(Connection& connection, const Frame& frame);
  void Arrive(Connection& connection, const Frame& frame);
  void Hold(const Connection& connection, const Frame& frame);
  // The client believes something else to be here: it is told what we know.
  void Disown(Connection& connection, const FrameHeader& request, const std::string& map);
  void Inspect(Connection& connection, const Frame& frame);
  void Reply(Connection& connection, const FrameHeader& request, const absl::Status& status);
  // Sends it when everything up to `position` of the log is where it must be.
  void ReplyWhenHeld(Connection& connection, const FrameHeader& request, LogPosition position,
                     const absl::Status& status, absl::string_view body);
  void Replicate(Connection& connection, const Frame& frame);
  void Forget(int64_t number);
  void HangUp(int64_t number);
  // Sees to it that who is silent does not stay so.
  void WatchSilent();
  // If that is why a connection was closed.
  void CountStranger(const std::string& peer, const absl::Status& why);

  ParamsServerState& state_;
  Mutex hot_mu_;
  HotIds hot_ ABSL_GUARDED_BY(hot_mu_);
  KeyCounts keys_ ABSL_GUARDED_BY(hot_mu_);
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  // The rest belongs to the lane's thread.
  std::shared_ptr<BufferPool> buffers_ = MakePool();
  Buffer shared_;  // The body of the request at hand, copied out of shared memory.
  PullScratch scratch_;
  DecodedPush push_;
  std::map<int64_t, Connection> connections_;
  std::set<int64_t> silent_;  // Of them, those that have said nothing yet.
  asio::steady_timer patience_{io_};
  bool watching_ = false;
  std::vector<Held> held_;
  std::vector<MemoryRange> ahead_;       // That the next pushes will fill.
  std::deque<Unconfirmed> unconfirmed_;  // In the order of the log.
  int64_t next_connection_ = 0;
  bool closed_ = false;
  std::thread thread_;

  static std::shared_ptr<BufferPool> MakePool();
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_SERVER_LANE_H_
