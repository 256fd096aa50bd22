#include "rubato/adapters/ring/lobby.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <string>
#include <thread>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/adapters/ring/tcp_edges.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// A member of a group with no room, or with some.
class Door {
 public:
  Door() : sockets_(*OpenSockets(here_)), thread_([this] { Answer(); }) {}
  ~Door() {
    shutdown(sockets_.listener.get(), SHUT_RDWR);
    closing_ = true;
    thread_.join();
  }
  std::string address() const { return here_.ToString(); }

  std::atomic<bool> full{true};
  std::atomic<int> asked{0};

 private:
  void Answer() {
    while (!closing_) {
      Fd socket(accept(sockets_.listener.get(), nullptr, nullptr));
      if (!socket.valid()) {
        std::this_thread::yield();
        continue;
      }
      const auto stream = MakeStream(nullptr, TlsSide::kAccepts, std::move(socket));
      EdgeHello hello;
      if (!ReadAll(*stream, &hello, sizeof(hello), 1000)) continue;
      ++asked;
      TellContract(*stream, "name: mine\n", full);
    }
  }

  Endpoint here_{.host = "127.0.0.1"};
  Sockets sockets_;
  std::atomic<bool> closing_{false};
  std::thread thread_;
};

Lobby LobbyOf(const Door& door, std::string contract, Resolver& names) {
  return Lobby({.join = {door.address()},
                .contract = std::move(contract),
                .patience = absl::Seconds(10),
                .names = &names});
}

// A group with as many members as there may be lets nobody in, which a newcomer is told; not at
// once, for one of them may have just died, and be missed in a moment.
TEST(LobbyTest, AFullGroupIsNoneToWaitFor) {
  Door door;
  Resolver names;
  Lobby lobby = LobbyOf(door, "name: mine\n", names);
  absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(lobby.Ask(now).ok());
  EXPECT_THAT(lobby.Why(), HasSubstr("has 1000 members, as many as a group can have"));
  EXPECT_TRUE(lobby.Ask(now += absl::Seconds(1)).ok());
  const absl::Status status = lobby.Ask(now += absl::Seconds(1));
  EXPECT_EQ(status.code(), absl::StatusCode::kFailedPrecondition);
  EXPECT_EQ(status.message(), absl::StrCat("the group at ", door.address(),
                                           " has 1000 members, as many as a group can have: start "
                                           "this one when another has left"));
}

// Who asked when there was room may find it gone, and whoever trains something else has that to
// hear first.
TEST(LobbyTest, ThereMayBeRoomForAWhile) {
  Door door;
  door.full = false;
  Resolver names;
  Lobby lobby = LobbyOf(door, "name: mine\n", names);
  absl::Time now = absl::UnixEpoch();
  EXPECT_TRUE(lobby.Ask(now).ok());
  EXPECT_THAT(lobby.Why(), HasSubstr("answers, and has yet to let this member in"));
  EXPECT_TRUE(lobby.Ask(now += absl::Seconds(1)).ok());
  EXPECT_EQ(door.asked, 1) << "it is known to train the same";
  door.full = true;
  absl::Status status;
  for (int i = 0; i < 10 && status.ok(); ++i) status = lobby.Ask(now += absl::Seconds(1));
  EXPECT_THAT(std::string(status.message()), HasSubstr("1000 members"));
  Lobby stranger = LobbyOf(door, "name: yours\n", names);
  EXPECT_THAT(std::string(stranger.Ask(now).message()),
              HasSubstr("trains something else: name is yours here and mine there"));
}

// Two who join each other, and nobody who has the state: it is no group that has yet to let them
// in.
TEST(LobbyTest, NewcomersAloneAreNoGroup) {
  const auto first = ElasticGroup::Open({.join = {"127.0.0.1:1"}});
  const auto second = ElasticGroup::Open({.join = {(*first)->address()}});
  const absl::Status early = (*second)->BeginStep(absl::Milliseconds(500)).status();
  EXPECT_THAT(std::string(early.message()), HasSubstr("has yet to let this member in"))
      << "they may be about to";
  const absl::Status late = (*second)->BeginStep(absl::Seconds(3)).status();
  EXPECT_EQ(late.message(),
            absl::StrCat("no view to train in after 3s; whoever answers at ", (*first)->address(),
                         " waits to be let in as well: nobody who has the state was heard of for "
                         "3s"));
}

}  // namespace
}  // namespace rubato
