#include "rubato/adapters/ring/endpoint.h"

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <linux/capability.h>
#include <netdb.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <string>
#include <thread>

#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/edge_network.h"
#include "rubato/adapters/ring/resolver.h"
#include "rubato/adapters/ring/state_server.h"

namespace {

std::atomic<bool> name_server_answers{false};
std::atomic<int> asked{0};
std::atomic<const char*> somewhere{"10.0.0.7"};

}  // namespace

// A name server that answers when it is told to, and knows one name.
extern "C" int getaddrinfo(const char* name, const char*, const addrinfo*, addrinfo** found) {
  const bool number = std::strcmp(name, "somewhere") != 0;
  if (!number) ++asked;
  while (!number && !name_server_answers) std::this_thread::yield();
  auto* const address = static_cast<sockaddr_in*>(std::calloc(1, sizeof(sockaddr_in)));
  address->sin_family = AF_INET;
  inet_pton(AF_INET, number ? name : somewhere.load(), &address->sin_addr);
  *found = static_cast<addrinfo*>(std::calloc(1, sizeof(addrinfo)));
  (*found)->ai_addr = reinterpret_cast<sockaddr*>(address);
  return 0;
}
extern "C" void freeaddrinfo(addrinfo* found) {
  std::free(found->ai_addr);
  std::free(found);
}

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(EndpointTest, NobodyCanBeReachedEverywhere) {
  Endpoint everywhere{.host = "0.0.0.0"};
  const absl::Status status = OpenSockets(everywhere).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), HasSubstr("name the address of this machine"));
}

// Memory is shared by those who may open each other's; the node's name tells. Whoever can be looked
// into by nobody, or has fewer rights than others, is elsewhere.
TEST(EndpointTest, WhoMayNotBeOpenedIsOnAnotherNode) {
  const std::string node = ThisNode();
  EXPECT_EQ(node, ThisNode());
  const auto elsewhere = [&](const std::function<bool()>& change) {
    const pid_t child = fork();
    if (child == 0) _exit(!change() ? 2 : ThisNode() == node ? 1 : 0);
    int status = -1;
    return waitpid(child, &status, 0) == child ? status : -1;
  };
  EXPECT_EQ(elsewhere([] { return prctl(PR_SET_DUMPABLE, 0) == 0; }), 0);
  if (geteuid() != 0) return;  // Only root has rights to give up.
  EXPECT_EQ(elsewhere([] {
              __user_cap_header_struct header{_LINUX_CAPABILITY_VERSION_3, 0};
              __user_cap_data_struct rights[2] = {};
              return syscall(SYS_capset, &header, rights) == 0;
            }),
            0);
}

// Whoever trains has to do with addresses when it connects, when a connection breaks and when it
// stops copying from one: none of that waits for a name server, longer than it would for the other.
TEST(SlowNameTest, HoldsUpNoStep) {
  name_server_answers = false;
  const Fd event(eventfd(0, EFD_CLOEXEC));
  SocketNetwork network(nullptr, /*lease=*/absl::Milliseconds(50));
  EXPECT_FALSE(network.Refuses("somewhere:80"));
  int looks = 0;
  const auto until_the_view_ends = [&] { return ++looks < 4; };
  EXPECT_TRUE(
      absl::IsAborted(network.Connect("somewhere:80", event.get(), until_the_view_ends).status()));
  const absl::Status unknown =
      network.Connect("somewhere:80", event.get(), [] { return true; }).status();
  EXPECT_TRUE(absl::IsUnavailable(unknown)) << unknown;
  Resolver names;
  { StateFetcher given_up("somewhere:80", EdgeHello(), nullptr, names); }
  const absl::Status nobody =
      AskContract("somewhere:80", 0, nullptr, absl::Milliseconds(50), names).status();
  EXPECT_THAT(std::string(nobody.message()), HasSubstr("nobody says where somewhere:80 is"));
  name_server_answers = true;
  EXPECT_TRUE(names.Await("somewhere:80", [] { return true; }).has_value());
}

TEST(ResolverTest, NobodyWaitsForASlowName) {
  name_server_answers = false;
  asked = 0;
  Resolver resolver;
  ASSERT_TRUE(resolver.Find("10.0.0.8:80;node;1;2").has_value());
  EXPECT_FALSE(resolver.Find("not an address").has_value());
  EXPECT_FALSE(resolver.Find("somewhere:80").has_value());
  EXPECT_FALSE(resolver.Find("somewhere:80").has_value());
  while (asked == 0) std::this_thread::yield();
  name_server_answers = true;
  std::optional<sockaddr_in> found;
  while (!(found = resolver.Find("somewhere:80"))) std::this_thread::yield();
  EXPECT_EQ(found->sin_port, htons(80));
  EXPECT_EQ(ntohl(found->sin_addr.s_addr), 0x0a000007u);
  EXPECT_EQ(asked, 1);
}

// A host that comes back with another address is found there, however that shows.
class MovedHostTest : public testing::Test {
 protected:
  MovedHostTest() {
    name_server_answers = true;
    seconds_ = 0;
    somewhere = "10.0.0.7";
    asked = 0;
    Settle(0x0a000007);
    EXPECT_EQ(asked, 1);
    somewhere = "10.0.0.9";
  }
  uint32_t Found(const std::string& address = "somewhere:80;node;7;3") {
    const auto found = resolver_.Find(address);
    return found ? ntohl(found->sin_addr.s_addr) : 0;
  }
  // A look-up is under way: until it has brought this.
  void Settle(uint32_t address) {
    while (Found() != address) std::this_thread::yield();
  }
  static sockaddr_in Place(uint32_t address) {
    sockaddr_in place{};
    place.sin_addr.s_addr = htonl(address);
    place.sin_port = htons(80);
    return place;
  }

  // Read by the thread of a look-up too, which may outlive the test.
  inline static std::atomic<int64_t> seconds_{0};
  Resolver resolver_{[] { return absl::UnixEpoch() + absl::Seconds(seconds_.load()); }};
};

TEST_F(MovedHostTest, NobodyAnswersThere) {
  seconds_ = 4;
  resolver_.Heard("somewhere:80;node;7;3", Place(0x0a000007));
  seconds_ = 8;
  EXPECT_EQ(Found(), 0x0a000007u);
  EXPECT_EQ(asked, 1) << "it answered four seconds ago";
  seconds_ = 10;
  Settle(0x0a000009);
  EXPECT_EQ(asked, 2);
}

TEST_F(MovedHostTest, PacketsAreRefusedThere) {
  resolver_.Refused(Place(0x0a000008));
  resolver_.Refused(Place(0x0a000007));
  EXPECT_EQ(Found(), 0x0a000007u);
  EXPECT_EQ(asked, 1) << "not twice within seconds";
  seconds_ = 3;
  Settle(0x0a000009);
}

TEST_F(MovedHostTest, ItWritesFromElsewhere) {
  resolver_.Heard("somewhere:80;node;12;3", Place(0x0a000009));
  seconds_ = 3;
  Settle(0x0a000009);
}

// One that is gone for good does not keep the name server busy.
TEST_F(MovedHostTest, WhatBringsNothingNewIsAskedForLess) {
  somewhere = "10.0.0.7";
  for (int i = 0; i < 600; ++i) {
    seconds_ = i;
    Found();
    std::this_thread::yield();
  }
  EXPECT_LE(asked, 20);
}

}  // namespace
}  // namespace rubato
