#include "rubato/adapters/http/http_server.h"

#include <httplib.h>
#include <sys/resource.h>

#include <algorithm>
#include <thread>
#include <utility>

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

// The library keeps a thread for every connection, also while it is silent: there are enough of
// them that clients may keep theirs open.
constexpr size_t kConnectionsMax = 128;

// So many may be within at a time.
class Gate {
 public:
  explicit Gate(int places) : places_(places) {}
  void Enter() {
    MutexLock lock(mu_);
    while (places_ == 0) left_.Wait(mu_);
    --places_;
  }
  void Leave() {
    MutexLock lock(mu_);
    ++places_;
    left_.NotifyOne();
  }

 private:
  Mutex mu_;
  CondVar left_;
  int places_ ABSL_GUARDED_BY(mu_);
};

// The library lets five connections wait to be accepted, and a sixth for a second.
class PatientServer : public httplib::Server {
 public:
  void WidenQueue() { ::listen(svr_sock_, 512); }
};

class LibServer : public HttpServer {
 public:
  LibServer(const HttpOptions& options, Handler handler)
      : handler_(std::move(handler)), gate_(options.threads) {
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
    const size_t connections = std::max(kConnectionsMax, static_cast<size_t>(options.threads));
    server_.new_task_queue = [connections] { return new httplib::ThreadPool(connections); };
    server_.Get(".*", [this](const httplib::Request& request, httplib::Response& response) {
      Answer({request.method, request.path, ""}, response);
    });
    // Others have no body that anybody reads; who may not come so is for the handler to say.
    const auto without_body = [this](const httplib::Request& request, httplib::Response& response) {
      Answer({request.method, request.path, ""}, response);
    };
    server_.Put(".*", without_body);
    server_.Patch(".*", without_body);
    server_.Delete(".*", without_body);
    // Read here: what says that it is a form, as all does that `curl -d` sends, the library would
    // cut at 8 kB.
    server_.Post(".*", [this](const httplib::Request& request, httplib::Response& response,
                              const httplib::ContentReader& read) {
      if (request.is_multipart_form_data()) {
        response.status = 415;
        return;
      }
      HttpRequest whole = {request.method, request.path, ""};
      const bool is_whole = read([&whole](const char* bytes, size_t size) {
        whole.body.append(bytes, size);
        return true;
      });
      if (is_whole) Answer(whole, response);  // Else the library knows what is wrong.
    });
    server_.set_error_handler([longest = options.body_bytes_max](const httplib::Request&,
                                                                 httplib::Response& response) {
      if (!response.body.empty()) return;
      const std::string why =
          response.status == 413
              ? absl::StrCat("the body is longer than ", longest, " bytes; send fewer rows at once")
          : response.status == 415 ? "the body is a form of several parts, not what it should be"
                                   : absl::StrCat("HTTP ", response.status);
      response.set_content(absl::StrCat("{\"error\":\"", why, "\"}"), "application/json");
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
  void Answer(const HttpRequest& request, httplib::Response& response) {
    gate_.Enter();
    const HttpReply reply = handler_(request);
    gate_.Leave();
    response.status = reply.status;
    response.set_content(reply.body, reply.type);
  }

  const Handler handler_;
  Gate gate_;
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
