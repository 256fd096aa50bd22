// What goes over one connection, byte by byte: the other end of it is the test itself.
#include "rubato/adapters/ring/tcp_edges.h"

#include <gtest/gtest.h>
#include <netinet/in.h>
#include <signal.h>
#include <sys/eventfd.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"

namespace {

// How many bytes sendmsg still takes before the buffer is full, as it were; -1: all.
std::atomic<int64_t> room{-1};

}  // namespace

extern "C" ssize_t sendmsg(int socket, const msghdr* message, int flags) {
  iovec pieces[8];
  msghdr cut = *message;
  cut.msg_iov = pieces;
  cut.msg_iovlen = 0;
  int64_t left = room;
  if (left == 0) {
    errno = EAGAIN;
    return -1;
  }
  for (size_t i = 0; i < message->msg_iovlen && left != 0; ++i) {
    iovec& piece = pieces[cut.msg_iovlen++];
    piece = message->msg_iov[i];
    if (left < 0) continue;
    piece.iov_len = std::min<size_t>(piece.iov_len, left);
    left -= static_cast<int64_t>(piece.iov_len);
  }
  if (left >= 0) room = left;
  return syscall(SYS_sendmsg, socket, &cut, flags);
}

namespace rubato {
namespace {

// As on the wire.
struct Header {
  uint64_t view = 0;
  uint32_t mark = 0;
  uint32_t operation = 0;
  uint64_t bytes = 0;
  uint64_t call = 0;
  uint64_t unused[4] = {};
};
constexpr uint64_t kPayload = 16;
constexpr uint32_t kWholeWord = 0x656c6f77;
constexpr int64_t kLine = 64;
constexpr int64_t kFrame = 2 * kLine;  // The word is its last four bytes.

class TcpEdgesTest : public testing::Test {
 protected:
  TcpEdgesTest() : listener_(socket(AF_INET, SOCK_STREAM, 0)) {
    attention_.event_fd = event_.get();
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t length = sizeof(address);
    auto* const any = reinterpret_cast<sockaddr*>(&address);
    EXPECT_EQ(bind(listener_.get(), any, length), 0);
    EXPECT_EQ(listen(listener_.get(), 8), 0);
    EXPECT_EQ(getsockname(listener_.get(), any, &length), 0);
    other_ = absl::StrCat("127.0.0.1:", ntohs(address.sin_port));
  }

  GroupView View(uint64_t number) const {
    GroupView view;
    view.number = number;
    view.members = {{MemberId(1), "127.0.0.1:1"}, {MemberId(2), other_}};
    view.holders = 2;
    return view;
  }
  void Enter(TcpEdges& edges, uint64_t number) {
    ASSERT_TRUE(edges.Enter(View(number), 0, MemberId(1)).ok());
    attention_.live_view = number;
  }
  // The first that the other member says in a view, which is a broadcast of its own.
  std::string FrameOf(uint64_t view, char fill, uint32_t end = kWholeWord) const {
    const uint64_t call = CallWord(Collective::kBroadcast, kPayload, WireFormat::kFp32, 1);
    const Header header{view, static_cast<uint32_t>(View(view).Mark()), 1, kPayload, call};
    std::string frame(reinterpret_cast<const char*>(&header), sizeof(header));
    frame.append(kPayload, fill);
    frame.append(kLine - kPayload - sizeof(end), '\0');
    return frame.append(reinterpret_cast<const char*>(&end), sizeof(end));
  }
  // A connection from the other member, which has said its first in `view`.
  Fd CallFromOther(TcpEdges& edges, uint64_t view, char fill) const {
    int ends[2];
    EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    edges.Arrive(MemberId(2), MemberId(1), std::make_unique<PlainStream>(Fd(ends[0])));
    const std::string frame = FrameOf(view, fill);
    EXPECT_EQ(write(ends[1], frame.data(), frame.size()), kFrame);
    return Fd(ends[1]);
  }
  void EndView() {
    attention_.live_view = 0;
    const uint64_t one = 1;
    ASSERT_EQ(write(event_.get(), &one, sizeof(one)), 8);
  }

  Fd event_{eventfd(0, EFD_NONBLOCK)};
  Fd listener_;
  Attention attention_;
  SocketNetwork network_{nullptr};
  std::string other_;
};

// A full buffer may cut a frame at any byte, in its header too. Whoever reads on finds the next
// one, and is not told that the first was whole.
TEST_F(TcpEdgesTest, ACutFrameIsFilledUpToItsEnd) {
  for (int64_t cut = 1; cut < kFrame; cut += 3) {  // Its first byte, its last, and between.
    TcpEdges edges(attention_, 7, network_, [](MemberId, LossReason) {});
    Enter(edges, 1);
    room = static_cast<int64_t>(sizeof(EdgeHello)) + cut;
    std::array<char, kPayload> data;
    data.fill('x');
    std::thread first([&] {
      EXPECT_EQ(edges.Broadcast(absl::MakeSpan(data), 0).code(), absl::StatusCode::kAborted);
    });
    while (room > 0) std::this_thread::yield();
    EndView();
    first.join();
    room = -1;
    Enter(edges, 2);
    ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 0).ok());

    const Fd in(accept(listener_.get(), nullptr, nullptr));
    std::string stream(sizeof(EdgeHello) + 2 * kFrame, '\0');
    ASSERT_EQ(recv(in.get(), stream.data(), stream.size(), MSG_WAITALL),
              static_cast<ssize_t>(stream.size()));
    for (const uint64_t view : {1, 2}) {
      const char* const at = stream.data() + sizeof(EdgeHello) + (view - 1) * kFrame;
      Header header;
      std::memcpy(&header, at, sizeof(header));
      EXPECT_EQ(header.view, view) << "cut after " << cut;
      EXPECT_EQ(header.bytes, kPayload) << "cut after " << cut;
      uint32_t end;
      std::memcpy(&end, at + kFrame - sizeof(end), sizeof(end));
      EXPECT_EQ(end == kWholeWord, view == 2) << "cut after " << cut;
    }
  }
}

// Where data begins in the stream it begins in a line, so that no copy has to shift it: whatever
// was sent before, and whether speeds go along.
TEST_F(TcpEdgesTest, EveryPartOfAFrameBeginsALine) {
  TcpEdges edges(attention_, 7, network_, [](MemberId, LossReason) {});
  Enter(edges, 1);
  std::vector<int64_t> sizes;
  for (int64_t bytes = 4; bytes <= 3 * kLine; bytes += 4) sizes.push_back(bytes);
  for (const int64_t bytes : sizes) {
    std::string data(bytes, 'x');
    ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data.data(), data.size()), 0).ok());
  }
  std::vector<float> sum(16 << 10, 1.0f), speeds;  // Half of it goes at once.
  std::thread tells([&] {
    EXPECT_TRUE(absl::IsAborted(
        edges.AllreduceAndTell(absl::MakeSpan(sum), WireFormat::kFp32, 3.0f, speeds)));
  });
  const Fd in(accept(listener_.get(), nullptr, nullptr));
  const auto get = [&](int64_t bytes) {
    std::string got(bytes, '\0');
    EXPECT_EQ(recv(in.get(), got.data(), got.size(), MSG_WAITALL), bytes);
    return got;
  };
  get(sizeof(EdgeHello));
  for (const int64_t bytes : sizes) {
    Header header;
    std::memcpy(&header, get(kLine).data(), sizeof(header));
    ASSERT_EQ(header.bytes, static_cast<uint64_t>(bytes));
    const int64_t rest = (bytes + 4 + kLine - 1) / kLine * kLine;
    const std::string payload = get(rest);
    EXPECT_EQ(payload.find_last_of('x'), static_cast<size_t>(bytes) - 1);
  }
  Header header;
  std::memcpy(&header, get(kLine).data(), sizeof(header));
  EXPECT_EQ(header.bytes, kLine + sum.size() / 2 * sizeof(float));
  std::array<float, kLine / sizeof(float) + 1> floats;
  std::memcpy(floats.data(), get(sizeof(floats)).data(), sizeof(floats));
  EXPECT_EQ(floats[0], 3.0f);  // And then the sum.
  EXPECT_EQ(floats.back(), 1.0f);
  EndView();
  tells.join();
}

// The sender has gone on to the next view, of which the receiver has not heard.
TEST_F(TcpEdgesTest, ACutFrameIsNotTakenForData) {
  for (const bool whole : {true, false}) {
    TcpEdges edges(attention_, 7, network_, [](MemberId, LossReason) {});
    int ends[2];
    ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM, 0, ends), 0);
    const Fd out(ends[0]);
    const int in = ends[1];
    edges.Arrive(MemberId(2), MemberId(1), std::make_unique<PlainStream>(Fd(in)));
    Enter(edges, 1);
    const std::string stream = FrameOf(1, 'a', whole ? kWholeWord : 0) + FrameOf(2, 'b');
    ASSERT_EQ(write(out.get(), stream.data(), stream.size()), static_cast<ssize_t>(stream.size()));
    std::array<char, kPayload> data{};
    absl::Status taken;
    std::thread first([&] { taken = edges.Broadcast(absl::MakeSpan(data), 1); });
    if (!whole) {
      // All is read but what belongs to the next view.
      int left = 0;
      do {
        std::this_thread::yield();
        ASSERT_EQ(ioctl(in, FIONREAD, &left), 0);
      } while (left > static_cast<int>(kFrame - sizeof(Header)));
      EndView();
    }
    first.join();
    EXPECT_EQ(taken.ok(), whole) << taken;
    EXPECT_EQ(data[0], whole ? 'a' : '\0');
    Enter(edges, 2);
    ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 1).ok());
    EXPECT_EQ(data[0], 'b');
  }
}

// Connections are between two lives, and an end may be closed without a change of members: what is
// sent there would be answered by nobody.
TEST_F(TcpEdgesTest, WhatCannotBeHeardIsSentAnew) {
  TcpEdges edges(attention_, 7, network_, [](MemberId, LossReason) {});
  std::array<char, kPayload> data{};
  std::vector<Fd> kept;  // The first end stays open, and is read by nobody.
  const auto hear = [&](int64_t from) {
    kept.emplace_back(accept(listener_.get(), nullptr, nullptr));
    EdgeHello hello;
    ASSERT_EQ(recv(kept.back().get(), &hello, sizeof(hello), MSG_WAITALL),
              static_cast<ssize_t>(sizeof(hello)));
    EXPECT_EQ(hello.from, from);
    std::string frame(kFrame, '\0');
    ASSERT_EQ(recv(kept.back().get(), frame.data(), frame.size(), MSG_WAITALL), kFrame);
  };
  Enter(edges, 1);
  ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 0).ok());
  hear(1);
  // A new life of the same process.
  GroupView view = View(2);
  view.members[0].id = MemberId(3);
  ASSERT_TRUE(edges.Enter(view, 0, MemberId(3)).ok());
  attention_.live_view = 2;
  ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 0).ok());
  hear(3);
  // The other lets go of its end between two views.
  kept.clear();
  view.number = 3;
  ASSERT_TRUE(edges.Enter(view, 0, MemberId(3)).ok());
  attention_.live_view = 3;
  ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 0).ok());
  hear(3);
}

// In a ring nobody sends to the one it waits for; it calls all the same, and whoever calls and does
// not say who it is is hung up on.
TEST_F(TcpEdgesTest, WhoCallsBecauseItWaitsSaysWhoItIs) {
  TcpEdges edges(attention_, 7, network_, [](MemberId, LossReason) {});
  Enter(edges, 1);
  std::array<char, kPayload> data{};
  std::thread waits(
      [&] { EXPECT_TRUE(absl::IsAborted(edges.Broadcast(absl::MakeSpan(data), 1))); });
  const Fd called(accept(listener_.get(), nullptr, nullptr));
  const timeval patience{.tv_sec = 20};
  setsockopt(called.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EdgeHello hello;
  EXPECT_EQ(recv(called.get(), &hello, sizeof(hello), MSG_WAITALL),
            static_cast<ssize_t>(sizeof(hello)));
  EXPECT_EQ(hello.from, 1);
  EXPECT_EQ(hello.to, 2);
  EndView();
  waits.join();
}

// One accident is told of once, in the view in which it happened: who has not yet seen its end of a
// connection break when the next view begins makes another.
TEST_F(TcpEdgesTest, WhatBrokeBeforeTheViewIsNotLostInIt) {
  std::atomic<int> lost = 0;
  TcpEdges edges(attention_, 7, network_, [&](MemberId, LossReason) {
    ++lost;
    EndView();
  });
  std::array<char, kPayload> data{};
  Enter(edges, 1);
  ASSERT_TRUE(edges.Broadcast(absl::MakeSpan(data), 0).ok());
  Fd there(accept(listener_.get(), nullptr, nullptr));
  CallFromOther(edges, 1, 'a').Close();
  Enter(edges, 2);
  there.Close();  // This end of ours is seen to close only now.
  std::thread waits([&] { EXPECT_TRUE(edges.Broadcast(absl::MakeSpan(data), 1).ok()); });
  const timeval patience{.tv_sec = 20};
  setsockopt(listener_.get(), SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
  EXPECT_TRUE(Fd(accept(listener_.get(), nullptr, nullptr)).valid()) << "it calls anew";
  const Fd from = CallFromOther(edges, 2, 'b');
  waits.join();
  EXPECT_EQ(data[0], 'b');
  EXPECT_EQ(lost, 0);
}

TEST_F(TcpEdgesTest, NobodyWaitsForAnAnswerToWhatWasNotHeard) {
  std::atomic<int> lost = 0;
  TcpEdges edges(attention_, 7, network_, [&](MemberId member, LossReason) {
    EXPECT_EQ(member, MemberId(2));
    ++lost;
  });
  Enter(edges, 1);
  std::vector<float> values(1 << 16, 1.0f);  // So many that both send at once.
  std::thread first([&] {
    EXPECT_EQ(edges.Allreduce(absl::MakeSpan(values), WireFormat::kFp32).code(),
              absl::StatusCode::kAborted);
  });
  Fd(accept(listener_.get(), nullptr, nullptr)).Close();
  while (lost == 0) std::this_thread::yield();
  EndView();
  first.join();
}

// The same for a process that is killed, with TLS between: the kernel closes its sockets, and that
// is noticed at once, though TLS never said goodbye.
TEST_F(TcpEdgesTest, AKilledProcessIsNoticedAtOnceThroughTls) {
  const TlsLinks tls("between us");
  SocketNetwork network(&tls);
  int ready[2];
  ASSERT_EQ(pipe(ready), 0);
  const pid_t doomed = fork();
  if (doomed == 0) {  // Greets, and never answers.
    Fd socket(accept(listener_.get(), nullptr, nullptr));
    const auto in = MakeStream(&tls, TlsSide::kAccepts, std::move(socket));
    EdgeHello hello;
    const bool greeted = ReadAll(*in, &hello, sizeof(hello), 60000) && in->trusted();
    if (write(ready[1], greeted ? "y" : "n", 1) == 1) pause();
    _exit(1);
  }
  std::atomic<int64_t> lost_nanos = 0;
  TcpEdges edges(attention_, 7, network,
                 [&](MemberId, LossReason) { lost_nanos = absl::GetCurrentTimeNanos(); });
  Enter(edges, 1);
  std::vector<float> values(1 << 16, 1.0f);
  std::thread first([&] {
    EXPECT_EQ(edges.Allreduce(absl::MakeSpan(values), WireFormat::kFp32).code(),
              absl::StatusCode::kAborted);
  });
  char answer = 0;
  EXPECT_EQ(read(ready[0], &answer, 1), 1);
  EXPECT_EQ(answer, 'y');
  const int64_t killed_nanos = absl::GetCurrentTimeNanos();
  kill(doomed, SIGKILL);
  while (lost_nanos == 0) std::this_thread::yield();
  // Milliseconds; the rest is for a machine that is busy.
  EXPECT_LT(lost_nanos - killed_nanos, int64_t{1'000'000'000});
  EndView();
  first.join();
  waitpid(doomed, nullptr, 0);
  for (const int end : ready) close(end);
}

}  // namespace
}  // namespace rubato
