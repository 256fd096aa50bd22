#include "rubato/base/shared_mutex.h"

#include <gtest/gtest.h>

#include <atomic>
#include <thread>
#include <vector>

namespace rubato {
namespace {

TEST(SharedMutexTest, ReadersGoSideBySide) {
  SharedMutex mu;
  std::atomic<int> inside = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 3; ++i) {
    threads.emplace_back([&] {
      ReaderLock lock(mu);
      ++inside;
      while (inside < 3) std::this_thread::yield();  // For ever, if one kept out the others.
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(inside, 3);
}

TEST(SharedMutexTest, AWriterIsAlone) {
  SharedMutex mu;
  int64_t value = 0, twice = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&] {
      for (int n = 0; n < 2000; ++n) {
        if (n % 3 == 0) {
          WriterLock lock(mu);
          ++value;
          twice += 2;
        } else {
          ReaderLock lock(mu);
          ASSERT_EQ(twice, 2 * value);
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, 4 * 667);
}

// Two readers that relay the lock to each other, so that it is never free, do not starve a writer.
TEST(SharedMutexTest, AWriterThatWaitsComesBeforeNewReaders) {
  SharedMutex mu;
  std::atomic<bool> written = false;
  std::atomic<int64_t> reads = 0;
  std::vector<std::thread> readers;
  for (int i = 0; i < 2; ++i) {
    readers.emplace_back([&] {
      while (!written) {
        ReaderLock lock(mu);
        const int64_t before = ++reads;
        // Leaves once the other has come too, or a writer keeps it from coming.
        for (int spin = 0; spin < 1000 && reads == before && !written; ++spin) {
          std::this_thread::yield();
        }
      }
    });
  }
  while (reads < 10) std::this_thread::yield();
  {
    WriterLock lock(mu);
    written = true;
  }
  for (std::thread& thread : readers) thread.join();
  EXPECT_TRUE(written);
}

// Whoever has the turn keeps out writers, not readers, until it writes itself.
TEST(SharedMutexTest, ReadersGoOnBesideATurnUntilItWrites) {
  SharedMutex mu;
  std::atomic<int> value = 0;
  std::atomic<bool> other_wrote = false;
  std::thread writer, reader;
  {
    TurnLock turn(mu);
    writer = std::thread([&] {
      WriterLock lock(mu);
      other_wrote = true;
    });
    std::thread([&] {
      ReaderLock lock(mu);  // For ever, if the turn or the writer that waits kept it out.
      EXPECT_EQ(value, 0);
    }).join();
    EXPECT_FALSE(other_wrote);
    turn.Write();
    turn.Write();
    reader = std::thread([&] {
      ReaderLock lock(mu);
      EXPECT_EQ(value, 2);
    });
    value = 1;
    std::this_thread::yield();
    value = 2;
    EXPECT_FALSE(other_wrote);
  }
  writer.join();
  reader.join();
}

// What was read in one's turn is still so when one writes.
TEST(SharedMutexTest, NothingChangesBetweenATurnAndItsWriting) {
  SharedMutex mu;
  int64_t value = 0;
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&, i] {
      for (int n = 0; n < 500; ++n) {
        if (i == 0) {
          WriterLock lock(mu);
          ++value;
        } else if (i == 1) {
          ReaderLock lock(mu);
          ASSERT_GE(value, 0);
        } else {
          TurnLock lock(mu);
          const int64_t before = value;
          if (n % 20 == 0) std::this_thread::yield();
          lock.Write();
          ASSERT_EQ(value, before);
          value = before + 1;
        }
      }
    });
  }
  for (std::thread& thread : threads) thread.join();
  EXPECT_EQ(value, 3 * 500);
}

// Whoever writes and has passed its turn on keeps the next from writing, not from its turn.
TEST(SharedMutexTest, TheNextPreparesWhileOneWrites) {
  SharedMutex mu;
  std::atomic<bool> prepared = false, written = false;
  std::thread next;
  {
    TurnLock first(mu);
    EXPECT_TRUE(first.alone());
    first.Write();
    EXPECT_TRUE(first.alone());
    next = std::thread([&] {
      TurnLock second(mu);
      EXPECT_FALSE(second.alone());
      prepared = true;
      second.Write();
      EXPECT_TRUE(written);
    });
    first.PassOn();
    while (!prepared) std::this_thread::yield();  // For ever, if it had to wait for us.
    written = true;
  }
  next.join();
}

// Two writers that relay the lock to each other, so that one always writes, do not starve a reader.
TEST(SharedMutexTest, AReaderThatWaitsComesBeforeTheNextWriter) {
  SharedMutex mu;
  std::atomic<bool> read = false;
  std::atomic<int64_t> turns = 0;
  std::vector<std::thread> writers;
  for (int i = 0; i < 2; ++i) {
    writers.emplace_back([&] {
      while (!read) {
        TurnLock lock(mu);
        const int64_t before = ++turns;
        lock.Write();
        lock.PassOn();
        // Leaves once the other has its turn, and waits for us to leave.
        for (int spin = 0; spin < 1000 && turns == before && !read; ++spin) {
          std::this_thread::yield();
        }
      }
    });
  }
  while (turns < 10) std::this_thread::yield();
  {
    ReaderLock lock(mu);
    read = true;
  }
  for (std::thread& thread : writers) thread.join();
}

// Whoever has just had the turn and asks again comes after those who waited meanwhile.
TEST(SharedMutexTest, TurnsGoInTheOrderInWhichTheyWereAskedFor) {
  constexpr int kRounds = 100;
  int overtaken = 0;
  for (int round = 0; round < kRounds; ++round) {
    SharedMutex mu;
    std::atomic<bool> asks = false, again = false;
    std::thread other;
    {
      TurnLock turn(mu);
      other = std::thread([&] {
        asks = true;
        WriterLock lock(mu);
        overtaken += again;
      });
      while (!asks) std::this_thread::yield();
      for (int spin = 0; spin < 100; ++spin) std::this_thread::yield();  // It waits by now, mostly.
    }
    {
      TurnLock turn(mu);
      again = true;
    }
    other.join();
  }
  EXPECT_LT(overtaken, kRounds / 2);
}

}  // namespace
}  // namespace rubato
