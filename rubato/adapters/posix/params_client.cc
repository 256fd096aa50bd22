#include "rubato/adapters/posix/params_client.h"

#include <algorithm>
#include <asio.hpp>
#include <atomic>
#include <chrono>
#include <map>
#include <set>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/params_line.h"
#include "rubato/adapters/posix/shared_area.h"
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
  size_t reply_bytes = 0;            // Of a long answer that it knows the length of.
  std::shared_ptr<const void> keep;  // Owns what `body` shows.
  // An error, or the reply's body, which lives until the call returns.
  std::function<void(absl::StatusOr<absl::string_view>)> done;
  char* reply = nullptr;  // The place for that answer; null: it comes as a frame.
};

// Null where there is none.
std::shared_ptr<SharedHeap> MakeHeap(size_t bytes, SharedArea::Others others) {
  if (bytes == 0) return nullptr;
  absl::StatusOr<std::unique_ptr<SharedArea>> area = SharedArea::Make(bytes, others);
  return area.ok() ? std::make_shared<SharedHeap>(*std::move(area)) : nullptr;
}

// The calls to one server: sends what is unanswered whenever its line is up again. Belongs to the
// client's thread.
class Link {
 public:
  Link(asio::io_context& io, const FrameLinks& links, const ParamsClientOptions& options,
       int64_t server, std::shared_ptr<SharedHeap> requests)
      : options_(options),
        server_(server),
        requests_(std::move(requests)),
        line_(io, links, options.reconnect,
              {.greeted =
                   [this](const Frame& frame) {
                     if (frame.body != kSharesMemory) replies_ = nullptr;
                     for (auto& [id, call] : calls_) Write(id, call);
                   },
               .answered = [this](const Frame& frame) { Take(frame); },
               .lost = [] {},  // Whoever waits for an answer goes on waiting.
               // Asking again will not help those who wait.
               .refused = [this](const absl::Status& why) { Fail(Annotate(why, line_.address())); },
               .files = [this] { return Offer(); }}) {}

  void SetAddress(const std::string& address) {
    if (address == line_.address()) return;
    Hello hello;
    hello.job = options_.job;
    hello.server = server_;
    hello.servers = options_.servers;
    line_.Open(address, Greeting(hello));
  }
  void Send(Call call) {
    const uint64_t id = next_id_++;
    Call& kept = calls_[id] = std::move(call);
    if (line_.greeted()) Write(id, kept);
  }
  bool down() const { return line_.address().empty(); }
  // From any thread.
  bool greeted() const { return line_.greeted(); }

  // Every unanswered call hears `why`.
  void Fail(const absl::Status& why) {
    std::map<uint64_t, Call> calls = std::move(calls_);
    calls_.clear();
    for (auto& [id, call] : calls) call.done(why);
  }
  void Drop() { line_.Drop(); }

 private:
  // What a server would have to copy twice more if it went through the socket.
  static constexpr size_t kSharedBytesMin = 4096;

  void Take(const Frame& frame);
  std::vector<int> Offer();
  void Write(uint64_t id, Call& call);

  const ParamsClientOptions& options_;
  const int64_t server_;
  const std::shared_ptr<SharedHeap> requests_;  // Null: nothing is shared.
  // Of this connection alone: a server that is given up may write into the last one's.
  std::shared_ptr<SharedHeap> replies_;
  ParamsLine line_;
  uint64_t next_id_ = 1;            // 0 is the greeting's.
  std::map<uint64_t, Call> calls_;  // Unanswered, oldest first.
};

std::vector<int> Link::Offer() {
  replies_ =
      requests_ == nullptr ? nullptr : MakeHeap(options_.shared_bytes, SharedArea::Others::kWrite);
  if (replies_ == nullptr) return {};
  return {requests_->area().file(), replies_->area().file()};
}

void Link::Write(uint64_t id, Call& call) {
  const auto place = replies_ == nullptr ? std::nullopt : requests_->area().Find(call.body);
  call.reply = nullptr;
  if (!place.has_value() || std::max(call.body.size(), call.reply_bytes) < kSharedBytesMin) {
    return line_.Send({.op = static_cast<uint16_t>(call.op), .id = id}, call.body, call.keep);
  }
  SharedRequest request = {.op = call.op, .request = *place, .reply = {}};
  if (call.reply_bytes > 0) call.reply = replies_->Take(call.reply_bytes);
  if (call.reply != nullptr) {
    request.reply = {static_cast<uint64_t>(call.reply - replies_->area().data()), call.reply_bytes};
  }
  const auto body = std::make_shared<std::string>(EncodeShared(request));
  line_.Send({.op = static_cast<uint16_t>(ParamsOp::kShared), .id = id}, *body, body);
}

void Link::Take(const Frame& frame) {
  const auto it = calls_.find(frame.header.id);
  if (it == calls_.end()) return;
  const Call call = std::move(it->second);
  calls_.erase(it);
  if (call.reply != nullptr) {
    const std::shared_ptr<SharedHeap> heap = replies_;  // Whatever `done` may bring about.
    const auto bytes = frame.header.op == static_cast<uint16_t>(ParamsOp::kShared)
                           ? DecodeSharedReply(frame.body, call.reply_bytes)
                           : std::nullopt;
    if (bytes.has_value() && frame.header.code == 0) {
      call.done(absl::string_view(call.reply, *bytes));
      return heap->Give(call.reply, call.reply_bytes);
    }
    heap->Give(call.reply, call.reply_bytes);
  }
  if (frame.header.code == 0) return call.done(frame.body);
  // Its message is a map.
  if (absl::IsAborted(frame.status())) return call.done(frame.status());
  call.done(Annotate(frame.status(), line_.address()));
}

// Requests keep their buffers; as many as were ever in flight at once. Filled on the callers'
// threads, given back on the client's.
template <typename T>
class Pool : public std::enable_shared_from_this<Pool<T>> {
 public:
  explicit Pool(std::shared_ptr<BufferMemory> memory) : memory_(std::move(memory)) {}

  std::shared_ptr<T> Take() {
    std::unique_ptr<T> item;
    {
      MutexLock lock(mu_);
      if (!free_.empty()) {
        item = std::move(free_.back());
        free_.pop_back();
      }
    }
    if (item == nullptr) item = std::make_unique<T>(memory_);
    return {item.release(), [pool = this->shared_from_this()](T* used) {
              MutexLock lock(pool->mu_);
              pool->free_.emplace_back(used);
            }};
  }

 private:
  const std::shared_ptr<BufferMemory> memory_;
  Mutex mu_;
  std::vector<std::unique_ptr<T>> free_ ABSL_GUARDED_BY(mu_);
};

// The same status, sharing nothing: for handing to another thread, since ThreadSanitizer cannot see
// the counts of those who share one in a prebuilt Abseil.
absl::Status Detached(const absl::Status& status) {
  return absl::Status(status.code(), status.message());
}

using SharedMap = std::shared_ptr<const PartitionMap>;

// One answer made of one from each server.
struct Gathering {
  static size_t reply_bytes(int64_t) { return 0; }
  // Of the body: what only more servers make less.
  static size_t dense_bytes(int64_t) { return 0; }

  SharedMap map;  // By which it is split.
  int64_t missing = 0;
  bool disowned = false;  // Some server owns something else than the map says.
  absl::Status status;    // The first error.
};
struct PullInFlight : Gathering {
  static constexpr ParamsOp kOp = ParamsOp::kPull;
  explicit PullInFlight(std::shared_ptr<BufferMemory> memory) : split(std::move(memory)) {}
  PullSplit split;
  std::function<void(absl::Status)> done;

  absl::string_view body(int64_t server) { return split.body(server).view(); }
  size_t reply_bytes(int64_t server) const { return split.reply_bytes(server); }
  void Choose(std::vector<int64_t>*) {}  // All owners.
  absl::Status Take(int64_t server, absl::string_view reply) {
    return split.Scatter(server, reply);
  }
  void Recode() { split.Recode(*map); }
  void Finish() { std::exchange(done, nullptr)(Detached(status)); }
};
struct PushInFlight : Gathering {
  static constexpr ParamsOp kOp = ParamsOp::kPush;
  explicit PushInFlight(std::shared_ptr<BufferMemory> memory) : split(std::move(memory)) {}
  PushSplit split;
  bool applied = false;
  bool fenced = false;
  bool stale = false;
  std::vector<int64_t> not_finite;  // Servers whose part has a NaN or an infinity.
  std::function<void(absl::StatusOr<PushOutcome>)> done;

  absl::string_view body(int64_t server) { return split.body(server).view(); }
  size_t dense_bytes(int64_t server) const { return split.dense_bytes(server); }
  void Look() {
    not_finite.clear();
    for (int64_t s = 0; s < map->servers(); ++s) {
      if (!split.finite(s)) not_finite.push_back(s);
    }
  }
  // To be applied nowhere, it must not reach those who would apply their part of it: the others
  // refuse it, and count it.
  void Choose(std::vector<int64_t>* owners) {
    if (!not_finite.empty()) *owners = not_finite;
  }
  absl::Status Take(int64_t server, absl::string_view reply) {
    const auto outcome = reply.size() == 1 ? static_cast<PushOutcome>(reply[0]) : PushOutcome(-1);
    applied |= outcome == PushOutcome::kApplied;
    fenced |= outcome == PushOutcome::kFenced;
    stale |= outcome == PushOutcome::kStale;
    if (outcome >= PushOutcome::kApplied && outcome <= PushOutcome::kStale) {
      return absl::OkStatus();
    }
    return absl::InternalError(absl::StrCat("server ", server, " gave no outcome"));
  }
  void Recode() {
    split.Recode(*map);
    Look();
  }
  void Finish() {
    const auto tell = std::exchange(done, nullptr);
    if (fenced) return tell(PushOutcome::kFenced);
    if (!status.ok()) return tell(Detached(status));
    if (stale) return tell(PushOutcome::kStale);
    if (!not_finite.empty()) {  // They have the batch, from an earlier push; who knows who else.
      return tell(absl::OutOfRangeError("gradient is a NaN or an infinity"));
    }
    tell(applied ? PushOutcome::kApplied : PushOutcome::kDuplicate);
  }
};
struct DeclareInFlight : Gathering {
  static constexpr ParamsOp kOp = ParamsOp::kDeclare;
  Declaration declaration;
  std::vector<std::string> bodies;
  std::function<void(absl::Status)> done;

  absl::string_view body(int64_t server) { return bodies[static_cast<size_t>(server)]; }
  size_t dense_bytes(int64_t server) { return body(server).size(); }  // But for a few.
  void Choose(std::vector<int64_t>*) {}                               // All owners.
  absl::Status Take(int64_t, absl::string_view) { return absl::OkStatus(); }
  void Recode() {
    bodies.clear();
    for (int64_t s = 0; s < map->servers(); ++s) {
      bodies.push_back(
          EncodeDeclaration(declaration, DenseSlices(declaration.signature.dense_size, *map, s)));
    }
  }
  void Finish() { done(Detached(status)); }
};

class AsioParamsClient : public ParamsClient {
 public:
  explicit AsioParamsClient(ParamsClientOptions options)
      : options_(std::move(options)),
        map_(std::make_shared<const PartitionMap>(PartitionMap::Even(options_.servers))) {
    Grow(options_.servers);
    thread_ = std::thread([this] { io_.run(); });
  }
  ~AsioParamsClient() override { Stop(); }

  void SetServers(std::vector<std::string> addresses) override {
    Post([this, addresses = std::move(addresses)] {
      if (stopping_) return;
      Grow(static_cast<int64_t>(addresses.size()));
      for (size_t s = 0; s < addresses.size(); ++s) links_[s]->SetAddress(addresses[s]);
      ForgetGone();
    });
  }

  void SetMap(const PartitionMap& map) override {
    {
      MutexLock lock(mu_);
      if (map.number() <= map_->number()) return;
      map_ = std::make_shared<const PartitionMap>(map);
    }
    Post([this] {
      if (!stopping_) ForgetGone();
    });
  }

  void Declare(const Declaration& declaration, std::function<void(absl::Status)> done) override {
    auto declare = std::make_shared<DeclareInFlight>();
    declare->declaration = declaration;
    declare->done = std::move(done);
    declare->map = Map();
    declare->Recode();
    Send(std::move(declare));
  }

  void Pull(const PullRequest& request, std::function<void(absl::Status)> done) override {
    auto pull = pulls_->Take();
    pull->map = Map();
    pull->split.Encode(request, *pull->map, options_.wire);
    pull->done = std::move(done);
    Send(std::move(pull));
  }

  void Push(const PushRequest& request,
            std::function<void(absl::StatusOr<PushOutcome>)> done) override {
    auto push = pushes_->Take();
    push->map = Map();
    push->split.Encode(request, *push->map, options_.wire);
    push->Look();
    push->applied = push->fenced = push->stale = false;
    push->done = std::move(done);
    Send(std::move(push));
  }

  std::vector<bool> Connected() override;
  void Stop() override;

 private:
  // Runs `work` on the client's thread; here and now if that has ended, for it then only cancels.
  template <typename Work>
  void Post(Work work) {
    {
      MutexLock lock(mu_);
      if (!ended_) return asio::post(io_, std::move(work));
    }
    work();
  }

  SharedMap Map() {
    MutexLock lock(mu_);
    return map_;
  }
  // On the client's thread, or before it starts.
  void Grow(int64_t servers) {
    MutexLock lock(mu_);
    for (auto s = static_cast<int64_t>(links_.size()); s < servers; ++s) {
      links_.push_back(std::make_unique<Link>(io_, frame_links_, options_, s, requests_));
    }
  }

  // What was asked of a server that owns nothing any more, and is gone, nobody will answer.
  void ForgetGone() {
    const SharedMap map = Map();
    for (size_t s = 0; s < links_.size(); ++s) {
      if (links_[s]->down() && !map->Owns(static_cast<int64_t>(s))) {
        links_[s]->Fail(absl::AbortedError(""));
      }
    }
  }

  template <typename T>
  void Send(std::shared_ptr<T> request) {
    Post([this, request = std::move(request)] { SendToAll(request); });
  }

  // Sends its part of a request to every server that owns something.
  template <typename T>
  void SendToAll(const std::shared_ptr<T>& request) {
    if (const SharedMap map = Map(); map->number() > request->map->number()) {
      request->map = map;
      request->Recode();
    }
    std::vector<int64_t> owners;
    for (int64_t s = 0; s < request->map->servers(); ++s) {
      if (request->map->Owns(s)) owners.push_back(s);
    }
    Grow(request->map->servers());
    request->Choose(&owners);
    request->missing = static_cast<int64_t>(owners.size());
    request->status = absl::OkStatus();
    request->disowned = false;
    for (const int64_t s : owners) {
      const auto done = [this, request, s](absl::StatusOr<absl::string_view> reply) {
        if (absl::IsAborted(reply.status())) {
          request->disowned = true;
          LearnMap(reply.status().message());
        } else {
          request->status.Update(reply.ok() ? request->Take(s, *reply) : reply.status());
        }
        if (--request->missing == 0) Finish(request);
      };
      if (stopping_) {
        done(absl::CancelledError("the client has stopped"));
      } else if (const size_t bytes = request->body(s).size(); bytes > options_.request_bytes_max) {
        done(absl::InvalidArgumentError(absl::StrCat(
            "a request of ", bytes, " bytes to server ", s, ", but at most ",
            options_.request_bytes_max,
            " go at once: ", WayToFit(request->dense_bytes(s), options_.request_bytes_max))));
      } else {
        links_[static_cast<size_t>(s)]->Send(
            {T::kOp, request->body(s), request->reply_bytes(s), request, done});
      }
    }
  }

  template <typename T>
  void Finish(const std::shared_ptr<T>& request) {
    if (!request->disowned || !request->status.ok()) return request->Finish();
    if (Map()->number() > request->map->number()) return SendToAll(request);
    // The server is behind: it will hear of the map in a moment.
    auto timer = std::make_shared<asio::steady_timer>(io_, kMapPatience);
    timers_.insert(timer);
    timer->async_wait([this, timer, request](const asio::error_code&) {
      timers_.erase(timer);
      SendToAll(request);
    });
  }

  void LearnMap(absl::string_view bytes) {
    if (const absl::StatusOr<PartitionMap> map = PartitionMap::Decode(bytes); map.ok()) {
      SetMap(*map);
    }
  }

  static constexpr auto kMapPatience = std::chrono::milliseconds(5);

  const ParamsClientOptions options_;
  const FrameLinks frame_links_{options_.secret};
  const std::shared_ptr<SharedHeap> requests_ =
      MakeHeap(options_.shared_bytes, SharedArea::Others::kRead);
  std::shared_ptr<Pool<PullInFlight>> pulls_ = std::make_shared<Pool<PullInFlight>>(requests_);
  std::shared_ptr<Pool<PushInFlight>> pushes_ = std::make_shared<Pool<PushInFlight>>(requests_);
  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  bool stopping_ = false;  // The client's thread alone, until it has ended.
  std::set<std::shared_ptr<asio::steady_timer>> timers_;  // Likewise.
  Mutex mu_;
  SharedMap map_ ABSL_GUARDED_BY(mu_);
  // Grows on the client's thread alone, which therefore reads it without the lock.
  std::vector<std::unique_ptr<Link>> links_;
  bool stopped_ ABSL_GUARDED_BY(mu_) = false;
  bool ended_ ABSL_GUARDED_BY(mu_) = false;
  std::thread thread_;
};

std::vector<bool> AsioParamsClient::Connected() {
  std::vector<bool> connected;
  MutexLock lock(mu_);
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
    for (const auto& timer : timers_) timer->cancel();
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
