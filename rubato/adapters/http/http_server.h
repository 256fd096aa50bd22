// HTTP for a handful of clients: a handler called on several threads, and limits that hold whatever
// bytes arrive.
#ifndef RUBATO_ADAPTERS_HTTP_HTTP_SERVER_H_
#define RUBATO_ADAPTERS_HTTP_HTTP_SERVER_H_

#include <functional>
#include <memory>
#include <string>

#include "absl/status/statusor.h"

namespace rubato {

struct HttpRequest {
  std::string method;  // GET or POST; others are refused before.
  std::string path;    // "/score", without what follows a '?'.
  std::string body;
};

struct HttpReply {
  int status = 200;
  std::string type = "application/json";
  std::string body;
};

struct HttpOptions {
  std::string address = "127.0.0.1:0";  // host:port; port 0 takes a free one.
  size_t body_bytes_max = 8 << 20;      // A longer one is answered with 413.
  int threads = 8;                      // Requests worked on at a time; others wait.
  int patience_seconds = 5;             // For a client that sends or takes nothing.
};

class HttpServer {
 public:
  using Handler = std::function<HttpReply(const HttpRequest&)>;

  // INVALID_ARGUMENT if the address is none, UNAVAILABLE if one cannot listen there. `handler` is
  // called on several threads at a time.
  static absl::StatusOr<std::unique_ptr<HttpServer>> Start(const HttpOptions& options,
                                                           Handler handler);
  virtual ~HttpServer() = default;  // Finishes what is being answered, and stops.
  // As one reaches it: with the port that was taken.
  virtual std::string address() const = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_HTTP_HTTP_SERVER_H_
