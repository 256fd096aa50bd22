#include "rubato/adapters/posix/params_client.h"

#include <asio.hpp>
#include <atomic>
#include <map>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/base/mutex.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"
#include "rubato/params/partition.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

// A request on its way to one server. Kept until answered, so that it can be sent again.
struct Call {
  ParamsOp op;
  absl::string_view body;
  std::shared_ptr<const void> keep;  // Owns what `body` shows.
  // An error, or the reply's body, which lives until the call returns.
  std::function<void(absl::StatusOr<absl::string_view>)> done;
};

// The line to one server: connects, greets, sends what is unanswered, and begins again whenever
// the connection is lost. Belongs to the client's thread.
class Link {
 public:
  Link(asio::io_context& io, const ParamsClientOptions& options, int64_t server)
      : io_(io), options_(options), server_(server), timer_(io) {}

  void SetAddress(const std::string& address) {
    if (address == address_) return;
    address_ = address;
    Drop();
    Connect();
  }
  void Send(Call call) {
    const uint64_t id = next_id_++;
    const Call& kept = calls_[id] = std::move(call);
    if (greeted_) Write(id, kept);
  }
  // From any thread.
  bool greeted() const { return greeted_; }

  // Every unanswered call hears `why`.
  void Fail(const absl::Status& why) {
    std::map<uint64_t, Call> calls = std::move(calls_);
    calls_.clear();
    for (auto& [id, call] : calls) call.done(why);
  }
  void Drop() {
    ++life_;
    timer_.cancel();
    attempt_.reset();
    if (socket_ != nullptr) socket_->Close();
    socket_.reset();
    greeted_ = false;
  }

 private:
  void Connect();
  void Greet(StreamSocket socket);
  void Take(const Frame& frame);
  void Retry();
  void Write(uint64_t id, const Call& call) {
    socket_->Send({.op = static_cast<uint16_t>(call.op), .id = id}, call.body, call.keep);
  }

  asio::io_context& io_;
  const ParamsClientOptions& options_;
  const int64_t server_;
  std::string address_;
  asio::steady_timer timer_;
  std::shared_ptr<void> attempt_;
  std::shared_ptr<FrameSocket> socket_;
  std::atomic<bool> greeted_ = false;
  int64_t life_ = 0;                // Counts connections, so that a late timer knows its own.
  uint64_t next_id_ = 1;            // 0 is the greeting's.
  std::map<uint64_t, Call> calls_;  // Unanswered, oldest first.
};

void Link::Connect() {
  if (address_.empty()) return;
  const absl::StatusOr<SocketAddress> address = SocketAddress::Parse(address_);
  if (!address.ok()) return Fail(address.status());
  attempt_ = ConnectTo(io_, *address, [this](absl::StatusOr<StreamSocket> socket) {
    if (!socket.ok()) return Retry();
    Greet(*std::move(socket));
  });
}

void Link::Retry() {
  Drop();
  timer_.expires_after(absl::ToChronoNanoseconds(options_.reconnect));
  timer_.async_wait([this, life = life_](const asio::error_code& error) {
    if (!error && life == life_) Connect();
  });
}

void Link::Greet(StreamSocket socket) {
  socket_ = std::make_shared<FrameSocket>(std::move(socket), kFrameBytesMax);
  socket_->Start([this](const Frame& frame) { Take(frame); },
                 [this](const absl::Status&) { Retry(); });
  Hello hello;
  hello.job = options_.job;
  hello.server = server_;
  hello.servers = options_.servers;
  const auto body = std::make_shared<std::string>(EncodeHello(hello));
  socket_->Send({.op = static_cast<uint16_t>(ParamsOp::kHello)}, *body, body);
}

void Link::Take(const Frame& frame) {
  if (!greeted_) {
    // Refused: the wrong job, place or release. Asking again will not help those who wait.
    if (const absl::Status refusal = frame.status(); !refusal.ok()) {
      Retry();
      return Fail(Annotate(refusal, address_));
    }
    greeted_ = true;
    for (const auto& [id, call] : calls_) Write(id, call);
    return;
  }
  const auto it = calls_.find(frame.header.id);
  if (it == calls_.end()) return;
  const Call call = std::move(it->second);
  calls_.erase(it);
  if (frame.header.code == 0) return call.done(frame.body);
  call.done(Annotate(frame.status(), address_));
}

// Requests keep their buffers; as many as were ever in flight at once. Filled on the callers'
// threads, given back on the client's.
template <typename T>
class Pool : public std::enable_shared_from_this<Pool<T>> {
 public:
  std::shared_ptr<T> Take() {
    std::unique_ptr<T> item;
    {
      MutexLock lock(mu_);
      if (!free_.empty()) {
        item = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (item == nullptr) item = std::make_unique<T>();
    return {item.release(), [pool = this->shared_from_this()](T* used) {
              MutexLock lock(pool->mu_);
              pool->free_.emplace_back(used);
            }};
  }

 private:
  Mutex mu_;
  std::vector<std::unique_ptr<T>> free_ ABSL_GUARDED_BY(mu_);
};

// The same status, sharing nothing: for handing to another thread, since ThreadSanitizer cannot see
// the counts of those who share one in a prebuilt Abseil.
absl::Status Detached(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

// One answer made of one from each server.
struct Gathering {
  int64_t missing = 0;
  absl::Status status;  // The first error.
};
struct PullInFlight : Gathering {
  PullSplit split;
  std::function<void(absl::Status)> done;
};
struct PushInFlight : Gathering {
  PushSplit split;
  bool applied = false;
  bool fenced = false;
  std::function<void(absl::StatusOr<PushOutcome>)> done;
};
struct DeclareInFlight : Gathering {
  std::vector<std::string> bodies;
  std::function<void(absl::Status)> done;
};

class AsioParamsClient : public ParamsClient {
 public:
  explicit AsioParamsClient(ParamsClientOptions options)
      : options_(std::move(options)), map_(PartitionMap::Even(options_.servers)) {
    for (int64_t s = 0; s < options_.servers; ++s) {
      links_.push_back(std::make_unique<Link>(io_, options_, s));
    }
    thread_ = std::thread([this] { io_.run(); });
  }
  ~AsioParamsClient() override { Stop(); }

  void SetServers(std::vector<std::string> addresses) override {
    RUBATO_CHECK(addresses.size() == links_.size());
    Post([this, addresses = std::move(addresses)] {
      if (stopping_) return;
      for (size_t s = 0; s < links_.size(); ++s) links_[s]->SetAddress(addresses[s]);
    });
  }

  void Declare(const Declaration& declaration, std::function<void(absl::Status)> done) override {
    auto declare = std::make_shared<DeclareInFlight>();
    for (int64_t s = 0; s < options_.servers; ++s) {
      declare->bodies.push_back(EncodeDeclaration(
          declaration, DenseSlice(declaration.signature.dense_size, s, options_.servers)));
    }
    declare->done = std::move(done);
    SendToAll(
        ParamsOp::kDeclare, declare,
        [](DeclareInFlight& d, size_t s) -> absl::string_view { return d.bodies[s]; },
        [](DeclareInFlight&, size_t, absl::string_view) { return absl::OkStatus(); },
        [](DeclareInFlight& d) { d.done(Detached(d.status)); });
  }

  void Pull(const PullRequest& request, std::function<void(absl::Status)> done) override {
    auto pull = pulls_->Take();
    pull->split.Encode(request, map_, options_.wire);
    pull->done = std::move(done);
    SendToAll(
        ParamsOp::kPull, pull, [](PullInFlight& p, size_t s) { return p.split.body(s).view(); },
        [](PullInFlight& p, size_t s, absl::string_view reply) {
          return p.split.Scatter(static_cast<int64_t>(s), reply);
        },
        [](PullInFlight& p) { std::exchange(p.done, nullptr)(Detached(p.status)); });
  }

  void Push(const PushRequest& request,
            std::function<void(absl::StatusOr<PushOutcome>)> done) override {
    auto push = pushes_->Take();
    push->split.Encode(request, map_, options_.wire);
    push->applied = push->fenced = false;
    push->done = std::move(done);
    SendToAll(
        ParamsOp::kPush, push, [](PushInFlight& p, size_t s) { return p.split.body(s).view(); },
        TakeOutcome,
        [](PushInFlight& p) {
          const auto done = std::exchange(p.done, nullptr);
          if (p.fenced) return done(PushOutcome::kFenced);
          if (!p.status.ok()) return done(Detached(p.status));
          done(p.applied ? PushOutcome::kApplied : PushOutcome::kDuplicate);
        });
  }

  std::vector<bool> Connected() override;
  void Stop() override;

 private:
  static absl::Status TakeOutcome(PushInFlight& push, size_t server, absl::string_view reply) {
    const auto outcome = reply.size() == 1 ? static_cast<PushOutcome>(reply[0]) : PushOutcome(-1);
    push.applied |= outcome == PushOutcome::kApplied;
    push.fenced |= outcome == PushOutcome::kFenced;
    if (outcome >= PushOutcome::kApplied && outcome <= PushOutcome::kFenced) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("server ", server, " gave no outcome"));
  }

  // Runs `work` on the client's thread; here and now if that has ended, for it then only cancels.
  template <typename Work>
  void Post(Work work) {
    {
      MutexLock lock(mu_);
      if (!ended_) return asio::post(io_, std::move(work));
    }
    work();
  }

  // Sends `body(request, s)` to every server s, gives each reply to `take`, and calls `finish`
  // when all have answered.
  template <typename T, typename Body, typename Take, typename Finish>
  void SendToAll(ParamsOp op, std::shared_ptr<T> request, Body body, Take take, Finish finish) {
    Post([this, op, request = std::move(request), body, take, finish] {
      request->missing = static_cast<int64_t>(links_.size());
      request->status = absl::OkStatus();
      for (size_t s = 0; s < links_.size(); ++s) {
        const auto done = [request, s, take, finish](absl::StatusOr<absl::string_view> reply) {
          request->status.Update(reply.ok() ? take(*request, s, *reply) : reply.status());
          if (--request->missing == 0) finish(*request);
        };
        if (stopping_) {
          done(absl::CancelledError("the client has stopped"));
        } else if (const size_t bytes = body(*request, s).size(); bytes > kFrameBytesMax) {
          done(absl::InvalidArgumentError(absl::StrCat("a request of ", bytes, " bytes to server ",
                                                       s, ", but at most ", kFrameBytesMax,
                                                       " go at once: lower batch_size")));
        } else {
          links_[s]->Send({op, body(*request, s), request, done});
        }
      }
    });
  }

  const ParamsClientOptions options_;
  const PartitionMap map_;
  std::shared_ptr<Pool<PullInFlight>> pulls_ = std::make_shared<Pool<PullInFlight>>();
  std::shared_ptr<Pool<PushInFlight>> pushes_ = std::make_shared<Pool<PushInFlight>>();
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  std::vector<std::unique_ptr<Link>> links_;
  bool stopping_ = false;  // The client's thread alone, until it has ended.
  Mutex mu_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

std::vector<bool> AsioParamsClient::Connected() {
  std::vector<bool> connected;
  for (const auto& link : links_) connected.push_back(link->greeted());
  return connected;
}

void AsioParamsClient::Stop() {
  {
    MutexLock lock(mu_);
    if (std::exchange(stopped_, true)) return;
  }
  asio::post(io_, [this] {
    stopping_ = true;
    for (const auto& link : links_) {
      link->Drop();
      link->Fail(absl::CancelledError("the client has stopped"));
    }
    work_.reset();
  });
  thread_.join();
  {
    MutexLock lock(mu_);
    ended_ = true;
  }
  // What was posted while the thread ended is heard too.
  io_.restart();
  io_.poll();
}

}  // namespace

std::unique_ptr<ParamsClient> ParamsClient::Start(ParamsClientOptions options) {
  return std::make_unique<AsioParamsClient>(std::move(options));
}

}  // namespace rubato
