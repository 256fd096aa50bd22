#include "rubato/adapters/tls/stream.h"

#include <gtest/gtest.h>
#include <pthread.h>
#include <signal.h>
#include <sys/socket.h>

#include <atomic>
#include <thread>

namespace rubato {
namespace {

std::atomic<int> interruptions = 0;

// A signal that finds a thread waiting for bytes does not end the wait.
TEST(StreamTest, AnInterruptedWaitGoesOn) {
  struct sigaction interrupt {};
  interrupt.sa_handler = [](int) { ++interruptions; };
  ASSERT_EQ(sigaction(SIGUSR1, &interrupt, nullptr), 0);
  int ends[2];
  ASSERT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, ends), 0);
  PlainStream here{Fd(ends[0])}, there{Fd(ends[1])};
  std::atomic<bool> reads = false, ended = false;
  char byte = 0;
  bool read = false;
  std::thread reader([&] {
    reads = true;
    read = ReadAll(here, &byte, 1, /*timeout_ms=*/60000);
    ended = true;
  });
  while (!reads) std::this_thread::yield();
  for (int i = 1; i <= 200; ++i) {
    pthread_kill(reader.native_handle(), SIGUSR1);
    while (interruptions < i && !ended) std::this_thread::yield();
  }
  EXPECT_EQ(there.WriteBytes("x", 1), 1);
  reader.join();
  EXPECT_TRUE(read);
  EXPECT_EQ(byte, 'x');
}

}  // namespace
}  // namespace rubato
