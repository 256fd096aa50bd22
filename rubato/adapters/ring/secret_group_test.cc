// A group that has a secret, beside those who do not know it: what leaves this process is recorded.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cerrno>
#include <cstring>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/time/clock.h"
#include "rubato/adapters/ring/contract.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/adapters/ring/endpoint.h"
#include "rubato/adapters/ring/tcp_edges.h"
#include "rubato/adapters/tls/tls_links.h"
#include "rubato/base/bytes.h"
#include "rubato/base/mutex.h"
#include "rubato/membership/wire.h"

namespace {

struct Recording {
  rubato::Mutex mu;
  bool on ABSL_GUARDED_BY(mu) = false;
  std::string streams ABSL_GUARDED_BY(mu);
  std::vector<std::string> datagrams ABSL_GUARDED_BY(mu);
};
Recording recording;

// Whether members find no file descriptor for whoever comes to their door.
std::atomic<bool> short_of_files = false;

}  // namespace

// One that closes a spare one and asks again gets that.
extern "C" int accept4(int socket, sockaddr* from, socklen_t* length, int flags) {
  static thread_local bool spared = true;
  if (short_of_files && std::exchange(spared, !spared)) {
    errno = EMFILE;
    return -1;
  }
  return static_cast<int>(syscall(SYS_accept4, socket, from, length, flags));
}

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  const ssize_t n = syscall(SYS_sendmsg, socket, message, flags);
  rubato::MutexLock lock(recording.mu);
  size_t left = recording.on && n > 0 ? static_cast<size_t>(n) : 0;
  for (size_t i = 0; left > 0; ++i) {
    const size_t bytes = std::min(left, message->msg_iov[i].iov_len);
    recording.streams.append(static_cast<const char*>(message->msg_iov[i].iov_base), bytes);
    left -= bytes;
  }
  return n;
}

extern "C" ssize_t sendto(int socket, const void* data, size_t bytes, int flags, const sockaddr* to,
                          socklen_t length) {
  const ssize_t n = syscall(SYS_sendto, socket, data, bytes, flags, to, length);
  rubato::MutexLock lock(recording.mu);
  if (recording.on && n > 0) recording.datagrams.emplace_back(static_cast<const char*>(data), n);
  return n;
}

namespace rubato {
namespace {

using testing::HasSubstr;

constexpr int kWeights = 5000;

std::vector<float> Filled(const char (&word)[5]) {
  float value;
  std::memcpy(&value, word, sizeof(value));
  return std::vector<float>(kWeights, value);
}

// What a member holds and sums can be told in a recording: "wghtwght..." and "gradgrad...".
struct Member {
  std::vector<float> weights = Filled("wght");
  std::vector<float> gradients = Filled("grad");
  std::unique_ptr<ElasticGroup> group;

  explicit Member(GroupOptions options) {
    options.shared_memory = false;
    options.microbatches = 4;
    options.early_apply = true;
    options.state = {absl::MakeSpan(reinterpret_cast<char*>(weights.data()), kWeights * 4)};
    auto opened = ElasticGroup::Open(std::move(options));
    EXPECT_TRUE(opened.ok()) << opened.status();
    group = *std::move(opened);
  }
  absl::Status Step() {
    const absl::StatusOr<StepPlan> plan = group->BeginStep(absl::Seconds(60));
    if (!plan.ok()) return plan.status();
    const std::vector<float> mine = Filled("grad");
    std::copy(mine.begin(), mine.end(), gradients.begin());  // The buffer stays where it is.
    if (!group->AllreduceLast(absl::MakeSpan(gradients)).ok()) return absl::OkStatus();
    return group->Commit().status();
  }
};

// A founder, and one who joins it on a thread of its own, as long as this lives.
class Couple {
 public:
  explicit Couple(GroupOptions options) : founder_(options) {
    options.join = {founder_.group->address()};
    partner_ = std::make_unique<Member>(std::move(options));
    thread_ = std::thread([this] {
      while (!over_ && partner_->Step().ok()) {
      }
      partner_->group.reset();
      gone_ = true;
    });
  }
  ~Couple() {
    over_ = true;
    while (!gone_ && founder_.Step().ok()) {
    }
    thread_.join();
  }
  // Until both hold the state and took some steps, `steps` more.
  void Train(int steps) {
    while (founder_.group->view().holders < 2) ASSERT_TRUE(founder_.Step().ok());
    for (const int64_t then = founder_.group->step(); founder_.group->step() < then + steps;) {
      ASSERT_TRUE(founder_.Step().ok());
    }
  }
  ElasticGroup& founder() { return *founder_.group; }

 private:
  Member founder_;
  std::unique_ptr<Member> partner_;
  std::atomic<bool> over_ = false, gone_ = false;
  std::thread thread_;
};

// Records what both members send while they meet and train, and its datagrams.
struct Overheard {
  std::string streams;
  std::vector<std::string> datagrams;

  explicit Overheard(const std::function<void()>& talk) {
    {
      MutexLock lock(recording.mu);
      recording.on = true;
    }
    talk();
    MutexLock lock(recording.mu);
    recording.on = false;
    streams = std::exchange(recording.streams, {});
    datagrams = std::exchange(recording.datagrams, {});
  }
  bool Holds(const std::string& text) const {
    if (absl::StrContains(streams, text)) return true;
    for (const std::string& one : datagrams) {
      if (absl::StrContains(one, text)) return true;
    }
    return false;
  }
};

// The same ears that hear everything without encryption hear nothing with it: no state on its way,
// no sums, no contract, no addresses in gossip; nor can they say anything that is believed.
TEST(SecretGroupTest, WhoListensLearnsNothing) {
  for (const bool encrypt : {false, true}) {
    const Overheard heard([&] {
      Couple couple({.name = "private matter", .secret = "between us", .encrypt = encrypt});
      ASSERT_NO_FATAL_FAILURE(couple.Train(20));
    });
    EXPECT_GT(heard.streams.size(), size_t{20} * kWeights * 4);
    EXPECT_GT(heard.datagrams.size(), size_t{4});
    for (const std::string text :
         {"wghtwghtwght", "gradgradgrad", "private matter", "127.0.0.1:"}) {
      EXPECT_NE(heard.Holds(text), encrypt) << text;
    }
    for (const std::string& datagram : heard.datagrams) {
      EXPECT_NE(DecodePacket(datagram).ok(), encrypt);
    }
  }
}

// Whoever asks to join and may not is told why, and does not wait for ever.
TEST(SecretGroupTest, WhoIsRefusedIsTold) {
  struct Case {
    GroupOptions founder, stranger;
    std::string told;
  };
  const GroupOptions ours = {.secret = "between us"}, none = {};
  const GroupOptions open = {.secret = "between us", .encrypt = false};
  const std::string other =
      " does not speak TLS, or knows another secret: check --secret-file and "
      "allreduce.encrypt";
  const std::string encrypts =
      " encrypts and this one does not: check --secret-file and allreduce.encrypt";
  const Case cases[] = {{ours, {.secret = "between me"}, other},
                        {ours, none, encrypts},
                        {ours, open, encrypts},
                        {open, ours, other},
                        {none, ours, other}};
  std::vector<std::thread> threads;
  for (const Case& one : cases) {
    threads.emplace_back([one] {
      Member founder(one.founder);
      ASSERT_TRUE(founder.Step().ok());
      GroupOptions options = one.stranger;
      options.join = {founder.group->address()};
      Member stranger(std::move(options));
      const absl::Status refused = stranger.group->BeginStep(absl::Seconds(60)).status();
      EXPECT_EQ(refused, absl::FailedPreconditionError("the member at " + founder.group->address() +
                                                       one.told));
      ASSERT_TRUE(founder.Step().ok());
      EXPECT_EQ(founder.group->view().size(), 1);
    });
  }
  for (std::thread& thread : threads) thread.join();
}

// One that is shown the door for want of files is not told that it has another secret: it asks
// again, and joins when there are some.
TEST(SecretGroupTest, WhoIsTurnedAwayForWantOfFilesAsksAgain) {
  const GroupOptions ours = {.secret = "between us"}, none = {};
  for (const GroupOptions& options : {ours, none}) {
    Couple couple(options);
    ASSERT_NO_FATAL_FAILURE(couple.Train(1));
    const std::string address = couple.founder().address();
    const TlsLinks links(options.secret);
    const TlsLinks* const tls = couple.founder().encrypted() ? &links : nullptr;
    Resolver names;
    const auto ask = [&] {
      const uint64_t lobby = HashText(options.secret, 1);
      return AskContract(address, lobby, tls, absl::Seconds(60), names).status();
    };
    short_of_files = true;
    for (int i = 0; i < 5; ++i) {
      const absl::Status turned_away = ask();
      EXPECT_TRUE(absl::IsUnavailable(turned_away)) << turned_away;
      EXPECT_THAT(turned_away.message(), HasSubstr("hangs up without a word"));
    }
    short_of_files = false;
    EXPECT_EQ(ask(), absl::OkStatus());
  }
}

class Stranger {
 public:
  Stranger(const std::string& address, absl::string_view words) {
    const sockaddr_in to = *Resolve(*ParseEndpoint(address));
    fd_ = Fd(socket(AF_INET, SOCK_STREAM, 0));
    EXPECT_EQ(connect(fd_.get(), reinterpret_cast<const sockaddr*>(&to), sizeof(to)), 0);
    if (!words.empty()) send(fd_.get(), words.data(), words.size(), MSG_NOSIGNAL);
  }
  // What it is told before the other end closes.
  std::string HearsUntilTheEnd() {
    std::string heard;
    char buffer[256];
    ssize_t n = 0;
    pollfd fd{fd_.get(), POLLIN, 0};
    while (true) {
      if (poll(&fd, 1, 60000) <= 0) return "nothing for a minute";
      if ((n = recv(fd_.get(), buffer, sizeof(buffer), 0)) <= 0) return heard;
      heard.append(buffer, n);
    }
  }

 private:
  Fd fd_;
};

// Silent ones, ones that speak something else or stop in the midst of a greeting, more of them than
// are let wait: nobody notices, and each is shown the door.
TEST(SecretGroupTest, StrangersDisturbNobody) {
  std::string greeting;
  {
    const Overheard heard([&] {
      Couple couple({.secret = "between us"});
      couple.Train(1);
    });
    greeting = heard.streams.substr(0, 100);
  }
  Couple couple({.secret = "between us"});
  ASSERT_NO_FATAL_FAILURE(couple.Train(5));
  const uint64_t view = couple.founder().view().number;
  const std::string address = couple.founder().address();
  std::vector<std::unique_ptr<Stranger>> strangers;
  const EdgeHello hello{EdgeHello::kEdge, 1, 2, 3};
  const std::string plain(reinterpret_cast<const char*>(&hello), sizeof(hello));
  const std::string words[] = {"", greeting, plain, "GET / HTTP/1.1\r\n\r\n",
                               std::string(70000, '\x16')};
  for (int i = 0; i < 300; ++i) {
    strangers.push_back(std::make_unique<Stranger>(address, words[i % std::size(words)]));
    if (i % 20 == 0) {
      ASSERT_NO_FATAL_FAILURE(couple.Train(1));
    }
  }
  std::atomic<bool> shown = false;
  std::thread ends([&] {
    for (auto& stranger : strangers) {
      EXPECT_LE(stranger->HearsUntilTheEnd().size(), size_t{7}) << "an alert at most";
    }
    shown = true;
  });
  while (!shown) couple.Train(1);
  ends.join();
  EXPECT_EQ(couple.founder().view().number, view);
}

// What members said before, and the same with a bit changed, comes again from elsewhere.
TEST(SecretGroupTest, RepeatedAndChangedDatagramsChangeNothing) {
  Couple couple({.secret = "between us"});
  ASSERT_NO_FATAL_FAILURE(couple.Train(5));
  const uint64_t view = couple.founder().view().number;
  const Overheard heard([&] {
    const absl::Time until = absl::Now() + absl::Milliseconds(300);
    while (absl::Now() < until) couple.Train(1);
  });
  ASSERT_FALSE(heard.datagrams.empty());
  const Fd fd(socket(AF_INET, SOCK_DGRAM, 0));
  const sockaddr_in to = *Resolve(*ParseEndpoint(couple.founder().address()));
  const auto say = [&](const std::string& datagram) {
    sendto(fd.get(), datagram.data(), datagram.size(), 0, reinterpret_cast<const sockaddr*>(&to),
           sizeof(to));
  };
  for (int round = 0; round < 3; ++round) {
    for (std::string datagram : heard.datagrams) {
      say(datagram);
      datagram[datagram.size() / 2 + round] ^= 1;
      say(datagram);
    }
    ASSERT_NO_FATAL_FAILURE(couple.Train(5));
  }
  EXPECT_EQ(couple.founder().view().number, view);
}

}  // namespace
}  // namespace rubato
