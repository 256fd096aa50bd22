// Connections to a parameter server that say nothing: they do not stay, and keep nobody out.
#include <gtest/gtest.h>

#include <asio.hpp>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/net/frame.h"

namespace rubato {
namespace {

using Silent = asio::local::stream_protocol::socket;

class SilentConnectionsTest : public testing::Test {
 protected:
  void Start(absl::Duration greeting_time, int64_t silent_max) {
    ParamsServerOptions options = TestServerOptions(folder_.path(), 0, 1);
    options.threads = 1;
    options.greeting_time = greeting_time;
    options.silent_max = silent_max;
    auto server = ParamsServer::Start(options);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  // One that has sent `bytes`.
  Silent Connect(const std::string& bytes = "") {
    Silent socket(io_);
    socket.connect(asio::local::stream_protocol::endpoint(folder_.File("s0")));
    asio::write(socket, asio::buffer(bytes));
    return socket;
  }
  // Waits until the server hangs up.
  static void ExpectHungUp(Silent& socket) {
    std::string nothing;
    asio::error_code error;
    asio::read(socket, asio::dynamic_buffer(nothing), error);
    EXPECT_TRUE(error == asio::error::eof || error == asio::error::connection_reset) << error;
    EXPECT_EQ(nothing, "");
  }
  // In a moment: a connection is closed first, and counted then.
  void ExpectClients(int64_t clients) {
    while (server_->Stats().clients > clients) std::this_thread::yield();
    EXPECT_EQ(server_->Stats().clients, clients);
  }
  absl::Status Declare() {
    client_ = StartTestClient(1);
    client_->SetServers({server_->address()});
    return Await<absl::Status>([&](const std::function<void(absl::Status)>& done) {
      client_->Declare(TestModel(4, 2, "sgd"), done);
    });
  }

  const TestFolder folder_;
  asio::io_context io_;
  std::unique_ptr<ParamsServer> server_;
  std::unique_ptr<ParamsClient> client_;
};

TEST_F(SilentConnectionsTest, WhoSaysNothingInTimeIsHungUpOn) {
  Start(absl::Milliseconds(100), 128);
  // One that greets has said something, though nobody is let in before the first view.
  client_ = StartTestClient(1);
  client_->SetServers({server_->address()});
  while (server_->Stats().clients == 0) std::this_thread::yield();
  FrameHeader header;
  const std::string half(reinterpret_cast<const char*>(&header), sizeof(header) / 2);
  for (int round = 0; round < 3; ++round) {
    Silent silent = Connect(), halting = Connect(half);
    ExpectHungUp(silent);
    ExpectHungUp(halting);
  }
  ExpectClients(1);
  server_->SetView(1, {WorkerId(1)});
  EXPECT_TRUE(Declare().ok());
}

TEST_F(SilentConnectionsTest, OnlySoManyAreKeptAndTheNewest) {
  Start(absl::Hours(1), 3);
  server_->SetView(1, {WorkerId(1)});
  ASSERT_TRUE(Declare().ok());
  std::vector<Silent> sockets;
  for (int i = 0; i < 10; ++i) sockets.push_back(Connect());
  for (size_t i = 0; i < 7; ++i) ExpectHungUp(sockets[i]);
  ExpectClients(3 + 1);
  EXPECT_TRUE(Declare().ok()) << "another is let in all the same";
}

}  // namespace
}  // namespace rubato
