// What tests of real servers have in common: servers of job "ctr" below one folder, clients that
// do not wait long, and answers to wait for.
#ifndef RUBATO_ADAPTERS_POSIX_PARAMS_TESTING_H_
#define RUBATO_ADAPTERS_POSIX_PARAMS_TESTING_H_

#include <asio.hpp>
#include <cstdint>
#include <fstream>
#include <functional>
#include <future>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/adapters/posix/params_client.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/status.h"
#include "rubato/net/frame.h"
#include "rubato/params/declaration.h"

namespace rubato {

// Waits for what `start` hands to its callback.
template <typename T>
T Await(const std::function<void(std::function<void(T)>)>& start) {
  std::promise<T> promise;
  start([&](T value) { promise.set_value(std::move(value)); });
  return promise.get_future().get();
}

inline bool Eventually(const std::function<bool()>& condition) {
  const absl::Time patience = absl::Now() + absl::Seconds(60);
  while (!condition()) {
    if (absl::Now() > patience) return false;
    absl::SleepFor(absl::Milliseconds(1));
  }
  return true;
}

inline constexpr char kTestSecret[] = "between us";

// Sends bytes on a connection of its own and returns what comes back before it is closed.
inline std::string Exchange(const std::string& address, const std::string& bytes) {
  asio::io_context io;
  std::string reply;
  const auto attempt =
      ConnectTo(io, *SocketAddress::Parse(address), [&](absl::StatusOr<StreamSocket> socket) {
        RUBATO_CHECK_OK(socket.status());
        asio::error_code ignored;
        asio::write(*socket, asio::buffer(bytes), ignored);
        asio::read(*socket, asio::dynamic_buffer(reply), ignored);
      });
  io.run();
  return reply;
}

inline std::string FrameOf(uint16_t op, const std::string& body, uint32_t claimed_bytes = 0) {
  FrameHeader header;
  header.op = op;
  header.body_bytes = claimed_bytes > 0 ? claimed_bytes : static_cast<uint32_t>(body.size());
  std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
  return bytes + body + std::string(Padded(body.size()) - body.size(), '\0');
}

// Server `server`, which listens at ROOT/sN and keeps its log in ROOT/server-N.
inline ParamsServerOptions TestServerOptions(const std::string& root, int64_t server,
                                             int64_t servers) {
  ParamsServerOptions options;
  options.address = absl::StrCat("unix:", root, "/s", server);
  options.directory = absl::StrCat(root, "/server-", server);
  options.checkpoints = root + "/checkpoints";
  options.job = "ctr";
  options.server = ServerId(server);
  options.servers = servers;
  options.huge_pages = false;
  return options;
}

inline std::unique_ptr<ParamsClient> StartTestClient(int64_t servers, std::string job = "ctr",
                                                     std::string secret = kTestSecret) {
  return ParamsClient::Start({.job = std::move(job),
                              .secret = std::move(secret),
                              .servers = servers,
                              .reconnect = absl::Milliseconds(1)});
}

// One table, "deep", and dense weights of 0.5.
inline Declaration TestModel(int64_t dense, int64_t dim, std::string optimizer) {
  Declaration model;
  model.signature.dense_size = dense;
  model.signature.tables.resize(1);
  model.signature.tables[0].name = "deep";
  model.signature.tables[0].dim = dim;
  model.optimizer.name = std::move(optimizer);
  model.seed = 7;
  model.dense.assign(static_cast<size_t>(dense), 0.5f);
  return model;
}

// The same from zeros, every push subtracting its gradient: what is missing or doubled shows.
inline Declaration TestSums(int64_t dense, int64_t dim) {
  Declaration model = TestModel(dense, dim, "sgd");
  model.signature.tables[0].initializer.name = "zeros";
  model.optimizer.learning_rate = 1;
  model.dense.assign(static_cast<size_t>(dense), 0.0f);
  return model;
}

inline void FlipByte(const std::string& path, int64_t at) {
  std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
  RUBATO_CHECK(file.good());
  file.seekg(at);
  const char byte = static_cast<char>(file.get() ^ 0x10);
  file.seekp(at);
  file.put(byte);
}

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_POSIX_PARAMS_TESTING_H_
