#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/resource.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <chrono>
#include <cstring>
#include <vector>

#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/frame_socket.h"

namespace rubato {
namespace {

#if defined(__SANITIZE_ADDRESS__)
constexpr bool kSanitized = true;
#elif defined(__has_feature)
constexpr bool kSanitized = __has_feature(address_sanitizer);
#else
constexpr bool kSanitized = false;
#endif

// A process without a file to spare lets callers wait, and does not spin meanwhile.
TEST(FrameListenerTest, WithoutFilesToSpareItWaits) {
  if (kSanitized) GTEST_SKIP() << "the sanitizer's own checks of virtual calls need a file";
  const TestFolder folder;
  const std::string path = folder.File("s");
  asio::io_context io;
  auto listener = FrameListener::Listen(io, {.path = path});
  ASSERT_TRUE(listener.ok()) << listener.status();
  std::vector<StreamSocket> accepted;
  (*listener)->Accept([&]() -> asio::io_context& { return io; },
                      [&](StreamSocket socket) { accepted.push_back(std::move(socket)); });

  const int caller = socket(AF_UNIX, SOCK_STREAM, 0);
  ASSERT_GE(caller, 0);
  rlimit before;
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit few = before;
  few.rlim_cur = static_cast<rlim_t>(caller) + 10;
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &few), 0);
  std::vector<int> files;
  for (int file; (file = open("/dev/null", O_RDONLY)) >= 0;) files.push_back(file);
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  std::strncpy(address.sun_path, path.c_str(), sizeof(address.sun_path) - 1);
  ASSERT_EQ(connect(caller, reinterpret_cast<sockaddr*>(&address), sizeof(address)), 0);
  EXPECT_LT(io.run_for(std::chrono::milliseconds(500)), 20u);
  EXPECT_TRUE(accepted.empty());

  for (const int file : files) close(file);
  setrlimit(RLIMIT_NOFILE, &before);
  for (int tries = 0; accepted.empty() && tries < 300; ++tries) {
    io.run_one_for(std::chrono::milliseconds(100));
  }
  EXPECT_EQ(accepted.size(), 1u);
  close(caller);
}

}  // namespace
}  // namespace rubato
