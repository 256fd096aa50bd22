#include "rubato/adapters/http/http_server.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <httplib.h>

#include <thread>
#include <vector>

#include "rubato/base/rng.h"

namespace rubato {
namespace {

HttpReply Echo(const HttpRequest& request) {
  return {.status = request.path == "/no" ? 404 : 200,
          .type = "text/plain",
          .body = request.method + " " + request.path + " " + request.body};
}

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto started = HttpServer::Start({.body_bytes_max = 1000, .patience_seconds = 1}, Echo);
    ASSERT_TRUE(started.ok()) << started.status();
    server_ = *std::move(started);
    const std::string address = server_->address();
    port_ = std::stoi(address.substr(address.rfind(':') + 1));
  }
  httplib::Client Client() { return httplib::Client("127.0.0.1", port_); }
  int Connect() const {
    const int fd = socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in to = {};
    to.sin_family = AF_INET;
    to.sin_port = htons(static_cast<uint16_t>(port_));
    to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    EXPECT_EQ(connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
    return fd;
  }

  std::unique_ptr<HttpServer> server_;
  int port_ = 0;
};

TEST_F(HttpServerTest, HandsRequestsToTheHandler) {
  httplib::Client client = Client();
  EXPECT_EQ(client.Post("/score", "abc", "text/plain")->body, "POST /score abc");
  EXPECT_EQ(client.Get("/health?x=1")->body, "GET /health ");
  EXPECT_EQ(client.Get("/no")->status, 404);
  EXPECT_EQ(client.Put("/score", "abc", "text/plain")->body, "PUT /score ");
  EXPECT_EQ(client.Delete("/score")->body, "DELETE /score ");
}

TEST_F(HttpServerTest, LongBodiesAreRefusedAndOthersStillServed) {
  httplib::Client client = Client();
  const auto refused = client.Post("/score", std::string(100000, 'x'), "text/plain");
  // A client that is still sending may only see the connection go.
  EXPECT_EQ(refused ? refused->status : 413, 413);
  EXPECT_THAT(refused ? refused->body : "longer than 1000 bytes",
              testing::HasSubstr("longer than 1000 bytes"));
  EXPECT_EQ(Client().Post("/score", "ok", "text/plain")->body, "POST /score ok");
}

// As `curl -d` sends it, which calls everything a form; the library has a limit of its own there.
TEST_F(HttpServerTest, AFormIsABodyLikeAnyOther) {
  const auto server = HttpServer::Start({}, Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  httplib::Client client("127.0.0.1", std::stoi(address.substr(address.rfind(':') + 1)));
  const std::string body(100000, 'x');
  const auto reply = client.Post("/s", body, "application/x-www-form-urlencoded");
  ASSERT_TRUE(reply);
  EXPECT_EQ(reply->body, "POST /s " + body);
  const auto parts =
      client.Post("/s", "--b\r\n\r\nx\r\n--b--\r\n", "multipart/form-data; boundary=b");
  EXPECT_EQ(parts ? parts->status : 415, 415);
}

// Clients that keep their connections and say nothing do not keep others out.
TEST(HttpIdleTest, SilentConnectionsAreInNobodysWay) {
  const auto server = HttpServer::Start({.threads = 1, .patience_seconds = 600}, Echo);
  ASSERT_TRUE(server.ok()) << server.status();
  const std::string address = (*server)->address();
  const int port = std::stoi(address.substr(address.rfind(':') + 1));
  std::vector<std::unique_ptr<httplib::Client>> clients;
  for (int i = 0; i < 40; ++i) {
    clients.push_back(std::make_unique<httplib::Client>("127.0.0.1", port));
    clients.back()->set_keep_alive(true);
    clients.back()->set_read_timeout(60);
    const auto reply = clients.back()->Post("/s", "now", "text/plain");
    ASSERT_TRUE(reply) << httplib::to_string(reply.error());
    EXPECT_EQ(reply->body, "POST /s now");
  }
  for (const auto& client : clients) client->stop();
}

TEST_F(HttpServerTest, ServesSeveralAtATime) {
  std::vector<std::thread> threads;
  for (int i = 0; i < 20; ++i) {
    threads.emplace_back([this, i] {
      httplib::Client client = Client();
      client.set_keep_alive(true);
      for (int n = 0; n < 20; ++n) {
        const std::string body = std::to_string(100 * i + n);
        const auto reply = client.Post("/s", body, "text/plain");
        ASSERT_TRUE(reply) << httplib::to_string(reply.error());
        EXPECT_EQ(reply->body, "POST /s " + body);
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// Whatever arrives, the next client is served.
TEST_F(HttpServerTest, HostileBytesAreHarmless) {
  Rng rng(5);
  for (int round = 0; round < 200; ++round) {
    std::string bytes = round % 3 == 0   ? "POST /score HTTP/1.1\r\nContent-Length: "
                        : round % 3 == 1 ? "GET " + std::string(rng.Below(20000), 'a')
                                         : "";
    for (uint64_t n = rng.Below(300); n > 0; --n)
      bytes.push_back(static_cast<char>(rng.Below(256)));
    const int fd = Connect();
    (void)!send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    close(fd);
  }
  EXPECT_EQ(Client().Post("/score", "still", "text/plain")->body, "POST /score still");
}

TEST_F(HttpServerTest, SaysWhyItCannotListen) {
  EXPECT_TRUE(absl::IsInvalidArgument(HttpServer::Start({.address = "nowhere"}, Echo).status()));
  const auto taken = HttpServer::Start({.address = server_->address()}, Echo);
  EXPECT_TRUE(absl::IsUnavailable(taken.status())) << taken.status();
}

}  // namespace
}  // namespace rubato
