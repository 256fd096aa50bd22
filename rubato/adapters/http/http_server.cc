#include "rubato/adapters/http/http_server.h"

#include <httplib.h>
#include <sys/resource.h>

#include <algorithm>
#include <deque>
#include <optional>
#include <system_error>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "rubato/base/mutex.h"

namespace rubato {
namespace {

// The library waits with select(), which writes past its set for descriptors from 1024 on: there
// must be none. A connection too many waits in the queue of the kernel instead.
void BoundDescriptors() {
  rlimit limit = {};
  if (getrlimit(RLIMIT_NOFILE, &limit) != 0) return;
  limit.rlim_cur = std::min<rlim_t>(limit.rlim_cur, FD_SETSIZE);
  setrlimit(RLIMIT_NOFILE, &limit);
}

// The library lets five connections wait to be accepted, and a sixth for a second.
class PatientServer : public httplib::Server {
 public:
  void WidenQueue() { ::listen(svr_sock_, 512); }
};

// A thread for each connection, as the library needs it, be the client busy or idle; threads start
// when one is wanted, and stay.
class GrowingPool : public httplib::TaskQueue {
 public:
  explicit GrowingPool(size_t threads_max) : threads_max_(threads_max) {}

  void enqueue(std::function<void()> work) override {
    MutexLock lock(mu_);
    waiting_.push_back(std::move(work));
    if (waiting_.size() > idle_ && threads_.size() < threads_max_) Grow();
    changed_.NotifyOne();
  }

  void shutdown() override {
    std::vector<std::thread> threads;
    {
      MutexLock lock(mu_);
      ends_ = true;
      threads.swap(threads_);
      changed_.NotifyAll();
    }
    for (std::thread& thread : threads) thread.join();
  }

 private:
  void Grow() ABSL_EXCLUSIVE_LOCKS_REQUIRED(mu_) {
    try {
      threads_.emplace_back([this] { Work(); });
    } catch (const std::system_error&) {
      // No more to be had: those that are there will do, one after the other.
      if (threads_.empty()) throw;
    }
  }

  void Work() {
    while (const std::optional<std::function<void()>> work = Take()) (*work)();
  }

  // Nothing: it ends.
  std::optional<std::function<void()>> Take() {
    MutexLock lock(mu_);
    ++idle_;
    while (waiting_.empty() && !ends_) changed_.Wait(mu_);
    --idle_;
    if (waiting_.empty()) return std::nullopt;
    std::function<void()> work = std::move(waiting_.front());
    waiting_.pop_front();
    return work;
  }

  const size_t threads_max_;
  Mutex mu_;
  CondVar changed_;
  std::deque<std::function<void()>> waiting_ ABSL_GUARDED_BY(mu_);
  std::vector<std::thread> threads_ ABSL_GUARDED_BY(mu_);
  size_t idle_ ABSL_GUARDED_BY(mu_) = 0;
  bool ends_ ABSL_GUARDED_BY(mu_) = false;
};

// The bytes as they came: where the library reads a body itself, it takes what curl sends by
// default for a form, of at most 8 KB. False if they are too many, or stop; the status is set then.
bool ReadBody(const httplib::Request& request, const httplib::ContentReader& reader,
              std::string* body) {
  const auto take = [body](const char* data, size_t size) {
    body->append(data, size);
    return true;
  };
  if (!request.is_multipart_form_data()) return reader(take);
  // The parts of such a form are nobody's rows; without their heads the library would not read it.
  return reader([](const httplib::MultipartFormData&) { return true; },
                [](const char*, size_t) { return true; });
}

class LibServer : public HttpServer {
 public:
  LibServer(const HttpOptions& options, Handler handler) : handler_(std::move(handler)) {
    server_.set_payload_max_length(options.body_bytes_max);
    server_.set_read_timeout(options.patience_seconds);
    server_.set_write_timeout(options.patience_seconds);
    server_.set_keep_alive_timeout(options.patience_seconds);
    server_.set_keep_alive_max_count(1000000);
    server_.set_tcp_nodelay(true);
    // Not SO_REUSEPORT, the library's choice, with which a taken port looks free.
    server_.set_socket_options([](int fd) {
      const int yes = 1;
      setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &yes, sizeof(yes));
    });
    const auto threads = static_cast<size_t>(options.threads);
    server_.new_task_queue = [threads] { return new GrowingPool(threads); };
    const auto answer = [this](const httplib::Request& request, std::string body,
                               httplib::Response& response) {
      const HttpReply reply = handler_({request.method, request.path, std::move(body)});
      response.status = reply.status;
      response.set_content(reply.body, reply.type);
    };
    server_.Get(".*", [answer](const httplib::Request& request, httplib::Response& response) {
      answer(request, "", response);
    });
    server_.Post(".*", [answer](const httplib::Request& request, httplib::Response& response,
                                const httplib::ContentReader& reader) {
      std::string body;
      if (ReadBody(request, reader, &body)) answer(request, std::move(body), response);
    });
    server_.set_error_handler([](const httplib::Request&, httplib::Response& response) {
      if (!response.body.empty()) return;
      response.set_content(absl::StrCat("{\"error\":\"HTTP ", response.status, "\"}"),
                           "application/json");
    });
  }

  ~LibServer() override {
    server_.stop();
    if (thread_.joinable()) thread_.join();
  }

  absl::Status Listen(const std::string& host, int port) {
    const int taken = port == 0                          ? server_.bind_to_any_port(host)
                      : server_.bind_to_port(host, port) ? port
                                                         : -1;
    if (taken < 0) {
      return absl::UnavailableError(
          absl::StrCat(host, ":", port, ": cannot listen there; is the port taken?"));
    }
    address_ = absl::StrCat(host, ":", taken);
    server_.WidenQueue();
    thread_ = std::thread([this] { server_.listen_after_bind(); });
    // stop() before the loop has begun would be forgotten.
    while (!server_.is_running()) std::this_thread::yield();
    return absl::OkStatus();
  }

  std::string address() const override { return address_; }

 private:
  const Handler handler_;
  PatientServer server_;
  std::string address_;
  std::thread thread_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<HttpServer>> HttpServer::Start(const HttpOptions& options,
                                                              Handler handler) {
  const size_t colon = options.address.rfind(':');
  int port = 0;
  if (colon == std::string::npos || colon == 0 ||
      !absl::SimpleAtoi(options.address.substr(colon + 1), &port) || port < 0 || port > 65535) {
    return absl::InvalidArgumentError(absl::StrCat("'", options.address, "' is not host:port"));
  }
  BoundDescriptors();
  auto server = std::make_unique<LibServer>(options, std::move(handler));
  if (absl::Status status = server->Listen(options.address.substr(0, colon), port); !status.ok()) {
    return status;
  }
  return server;
}

}  // namespace rubato
