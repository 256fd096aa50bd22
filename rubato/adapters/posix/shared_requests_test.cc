// Requests that lie in memory which client and server share, with one of the two a stranger: a
// client that does as it likes with its memory, a server that answers what it likes.
#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <spawn.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <atomic>
#include <cmath>
#include <csignal>
#include <cstring>
#include <numeric>
#include <thread>
#include <utility>

#include "rubato/adapters/files/testing.h"
#include "rubato/adapters/posix/inspect_server.h"
#include "rubato/adapters/posix/params_testing.h"
#include "rubato/adapters/posix/shared_area.h"
#include "rubato/base/rng.h"
#include "rubato/net/frame.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

using testing::Each;
using testing::HasSubstr;
using Others = SharedArea::Others;

constexpr int64_t kDim = 4;
constexpr size_t kIds = 2000;  // Enough for a request to be worth it.
constexpr size_t kBytes = size_t{4} << 20;
constexpr char kServe[] = "--serve";
constexpr char kPush[] = "--push";

std::vector<uint64_t> Ids() {
  std::vector<uint64_t> ids(kIds);
  std::iota(ids.begin(), ids.end(), 1);
  return ids;
}

// Batch `n`: 1 is taken from every row.
struct Batch {
  explicit Batch(int64_t n, int64_t epoch = 0)
      : ids(Ids()), gradients(kIds * static_cast<size_t>(kDim), 1.0f) {
    request.key = {.epoch = epoch, .begin = n, .end = n + 1};
    request.worker = WorkerId(1);
    request.view = 1;
    request.tables = {{ids, gradients}};
  }
  std::string Bytes() const {
    PushSplit split;
    split.Encode(request, PartitionMap::Even(1));
    return std::string(split.body(0).view());
  }
  std::vector<uint64_t> ids;
  std::vector<float> gradients;
  PushRequest request;
};

// A pull of all rows.
struct Wanted {
  Wanted() : ids(Ids()), rows(kIds * static_cast<size_t>(kDim)) {
    split.Encode({.tables = {{ids, absl::MakeSpan(rows)}}, .dense = {}}, PartitionMap::Even(1));
  }
  std::string Bytes() { return std::string(split.body(0).view()); }
  std::vector<uint64_t> ids;
  std::vector<float> rows;
  PullSplit split;
};

absl::StatusOr<PushOutcome> Push(ParamsClient& client, int64_t n, int64_t epoch = 0) {
  const Batch batch(n, epoch);
  return Await<absl::StatusOr<PushOutcome>>(
      [&](auto done) { client.Push(batch.request, std::move(done)); });
}
absl::Status Declare(ParamsClient& client) {
  return Await<absl::Status>(
      [&](auto done) { client.Declare(TestSums(0, kDim), std::move(done)); });
}
absl::Status Pull(ParamsClient& client, std::vector<float>* rows) {
  const std::vector<uint64_t> ids = Ids();
  rows->assign(kIds * static_cast<size_t>(kDim), 7.0f);
  return Await<absl::Status>([&](auto done) {
    client.Pull({.tables = {{ids, absl::MakeSpan(*rows)}}, .dense = {}}, std::move(done));
  });
}

// ---- one end of a connection, by hand ----

struct Heard {
  FrameHeader header;
  std::string body;
  std::vector<FileDescriptor> files;
};

class RawEnd {
 public:
  explicit RawEnd(FileDescriptor socket) : socket_(std::move(socket)) {}

  void Say(FrameHeader header, absl::string_view body, const std::vector<int>& files = {}) {
    header.body_bytes = static_cast<uint32_t>(body.size());
    std::string bytes(reinterpret_cast<const char*>(&header), sizeof(header));
    bytes.append(body.data(), body.size());
    bytes.resize(sizeof(header) + Padded(body.size()));
    alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
    iovec part = {bytes.data(), bytes.size()};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!files.empty()) {
      message.msg_control = control.data();
      message.msg_controllen = CMSG_SPACE(files.size() * sizeof(int));
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      rights->cmsg_level = SOL_SOCKET;
      rights->cmsg_type = SCM_RIGHTS;
      rights->cmsg_len = CMSG_LEN(files.size() * sizeof(int));
      std::memcpy(CMSG_DATA(rights), files.data(), files.size() * sizeof(int));
    }
    RUBATO_CHECK(sendmsg(socket_.get(), &message, MSG_NOSIGNAL) == std::ssize(bytes));
  }

  Heard Hear() {
    Heard heard;
    Receive(&heard.header, sizeof(heard.header), &heard.files);
    heard.body.resize(Padded(heard.header.body_bytes));
    Receive(heard.body.data(), heard.body.size(), &heard.files);
    heard.body.resize(heard.header.body_bytes);
    return heard;
  }
  Heard Ask(ParamsOp op, absl::string_view body, const std::vector<int>& files = {}) {
    Say({.op = static_cast<uint16_t>(op), .id = 5}, body, files);
    return Hear();
  }
  void HangUp() {
    shutdown(socket_.get(), SHUT_RDWR);
    socket_.Close();
  }

 private:
  void Receive(void* to, size_t bytes, std::vector<FileDescriptor>* files) {
    for (size_t had = 0; had < bytes;) {
      alignas(cmsghdr) std::array<char, CMSG_SPACE(4 * sizeof(int))> control{};
      iovec part = {static_cast<char*>(to) + had, bytes - had};
      msghdr message{};
      message.msg_iov = &part;
      message.msg_iovlen = 1;
      message.msg_control = control.data();
      message.msg_controllen = control.size();
      const ssize_t some = recvmsg(socket_.get(), &message, MSG_CMSG_CLOEXEC);
      RUBATO_CHECK(some > 0);
      had += static_cast<size_t>(some);
      cmsghdr* rights = CMSG_FIRSTHDR(&message);
      if (rights == nullptr) continue;
      for (size_t at = 0; at < rights->cmsg_len - CMSG_LEN(0); at += sizeof(int)) {
        int file = -1;
        std::memcpy(&file, CMSG_DATA(rights) + at, sizeof(file));
        files->emplace_back(file);
      }
    }
  }
  FileDescriptor socket_;
};

sockaddr_un UnixAddress(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  RUBATO_CHECK(path.size() < sizeof(address.sun_path));
  path.copy(address.sun_path, path.size());
  return address;
}

// ---- a client by hand, and real servers ----

class RawClient {
 public:
  RawClient(const std::string& path, std::vector<int> files) : end_(Connect(path)) {
    welcome_ = end_.Ask(ParamsOp::kHello, EncodeHello({.job = "ctr"}), files);
  }
  // One whose memory is as it should be.
  RawClient(const std::string& path, const SharedArea& requests, const SharedArea& replies)
      : RawClient(path, {requests.file(), replies.file()}) {}

  const Heard& welcome() const { return welcome_; }
  RawEnd& end() { return end_; }
  Heard Declare() {
    const Declaration model = TestSums(0, kDim);
    return end_.Ask(ParamsOp::kDeclare, EncodeDeclaration(model, {}));
  }
  Heard Ask(const SharedRequest& request) {
    return end_.Ask(ParamsOp::kShared, EncodeShared(request));
  }

 private:
  static FileDescriptor Connect(const std::string& path) {
    FileDescriptor socket(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
    const sockaddr_un address = UnixAddress(path);
    while (connect(socket.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) !=
           0) {
      std::this_thread::yield();  // A process of its own that is not there yet.
    }
    return socket;
  }
  RawEnd end_;
  Heard welcome_;
};

class SharedRequestsTest : public testing::Test {
 protected:
  SharedRequestsTest() {
    for (auto* area : {&requests_, &replies_}) {
      auto made = SharedArea::Make(kBytes, Others::kWrite);
      RUBATO_CHECK_OK(made.status());
      *area = *std::move(made);
    }
  }
  absl::Status Start() {
    server_.reset();
    auto started = ParamsServer::Start(TestServerOptions(folder_.path(), 0, 1));
    if (!started.ok()) return started.status();
    server_ = *std::move(started);
    server_->SetView(1, {WorkerId(1)});
    return absl::OkStatus();
  }
  std::string path() const { return folder_.File("s0"); }
  std::unique_ptr<ParamsClient> Client(size_t shared_bytes = kBytes) {
    auto client = ParamsClient::Start(
        {.job = "ctr", .reconnect = absl::Milliseconds(1), .shared_bytes = shared_bytes});
    client->SetServers({"unix:" + path()});
    return client;
  }
  // As a client sees them that shares nothing.
  std::vector<float> Rows() {
    std::vector<float> rows;
    RUBATO_CHECK_OK(Pull(*Client(/*shared_bytes=*/0), &rows));
    return rows;
  }
  // Where the next request is.
  SharedPlace Put(const std::string& bytes) {
    bytes.copy(requests_->data(), bytes.size());
    return {0, bytes.size()};
  }

  const TestFolder folder_;
  std::unique_ptr<SharedArea> requests_, replies_;
  std::unique_ptr<ParamsServer> server_;
};

TEST_F(SharedRequestsTest, PushesAndPullsGoThroughMemory) {
  ASSERT_TRUE(Start().ok());
  RawClient client(path(), *requests_, *replies_);
  EXPECT_EQ(client.welcome().body, kSharesMemory);
  EXPECT_EQ(client.Declare().header.code, 0);
  const Heard pushed = client.Ask({ParamsOp::kPush, Put(Batch(0).Bytes()), {}});
  EXPECT_EQ(pushed.header.op, static_cast<uint16_t>(ParamsOp::kPush));
  EXPECT_EQ(pushed.body, std::string(1, static_cast<char>(PushOutcome::kApplied)));

  Wanted wanted;
  const std::string asked = wanted.Bytes();
  const SharedPlace place = {kSharedGrain, wanted.split.reply_bytes(0)};
  const Heard there = client.Ask({ParamsOp::kPull, Put(asked), place});
  EXPECT_EQ(there.header.op, static_cast<uint16_t>(ParamsOp::kShared));
  EXPECT_EQ(DecodeSharedReply(there.body, place.bytes), place.bytes);
  ASSERT_TRUE(wanted.split.Scatter(0, {replies_->data() + place.offset, place.bytes}).ok());
  EXPECT_THAT(wanted.rows, Each(-1.0f));

  // No place, or one that is too small: the answer is a frame.
  for (const SharedPlace& small : {SharedPlace{}, SharedPlace{0, place.bytes - 1}}) {
    const Heard plain = client.Ask({ParamsOp::kPull, Put(asked), small});
    EXPECT_EQ(plain.header.op, static_cast<uint16_t>(ParamsOp::kPull));
    EXPECT_EQ(plain.body.size(), place.bytes);
  }
}

// Through memory or through the socket, it is the same to a client and to its rows.
TEST_F(SharedRequestsTest, ItIsAllTheSameToAClient) {
  ASSERT_TRUE(Start().ok());
  // The smallest has no room for a request, the next for one at a time.
  for (const size_t bytes : {size_t{0}, size_t{4096}, size_t{64} << 10, kBytes}) {
    const auto client = Client(bytes);
    ASSERT_TRUE(Declare(*client).ok());
    const auto epoch = static_cast<int64_t>(bytes);
    const int64_t before = server_->Stats().pushes;
    std::vector<std::future<absl::StatusOr<PushOutcome>>> outcomes;
    for (int64_t n = 0; n < 10; ++n) {
      auto promise = std::make_shared<std::promise<absl::StatusOr<PushOutcome>>>();
      outcomes.push_back(promise->get_future());
      client->Push(Batch(n, epoch).request,
                   [promise](auto outcome) { promise->set_value(std::move(outcome)); });
    }
    for (auto& outcome : outcomes) EXPECT_EQ(*outcome.get(), PushOutcome::kApplied);
    EXPECT_EQ(*Push(*client, 3, epoch), PushOutcome::kDuplicate);
    EXPECT_EQ(server_->Stats().pushes, before + 10);
    std::vector<float> rows;
    ASSERT_TRUE(Pull(*client, &rows).ok());
    EXPECT_THAT(rows, Each(-static_cast<float>(before + 10)));
    EXPECT_EQ(rows, Rows());
  }
}

TEST_F(SharedRequestsTest, MemoryThatIsNotSealedIsRefusedAndTheSocketUsed) {
  ASSERT_TRUE(Start().ok());
  FileDescriptor loose(memfd_create("loose", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(ftruncate(loose.get(), kBytes), 0);
  RawClient client(path(), {requests_->file(), loose.get()});
  EXPECT_EQ(client.welcome().header.code, 0);
  EXPECT_THAT(client.welcome().body, HasSubstr("not sealed against shrinking"));
  EXPECT_THAT(server_->Stats().last_error, HasSubstr("not sealed against shrinking"));
  ASSERT_EQ(ftruncate(loose.get(), 0), 0);
  EXPECT_EQ(client.Declare().header.code, 0);
  const Heard refused = client.Ask({ParamsOp::kPush, Put(Batch(0).Bytes()), {}});
  EXPECT_THAT(refused.body, HasSubstr("beyond the memory that is shared"));
  EXPECT_EQ(client.end().Ask(ParamsOp::kPush, Batch(0).Bytes()).header.code, 0);
  EXPECT_THAT(Rows(), Each(-1.0f));

  // One file, or none, is no offer.
  EXPECT_EQ(RawClient(path(), {requests_->file()}).welcome().body, "");
  EXPECT_EQ(RawClient(path(), std::vector<int>()).welcome().body, "");
}

// Any place and any bytes: they are refused, or taken for what they are.
TEST_F(SharedRequestsTest, AnyPlaceAndAnyBytes) {
  ASSERT_TRUE(Start().ok());
  RawClient client(path(), *requests_, *replies_);
  ASSERT_EQ(client.Declare().header.code, 0);
  const std::string push = Batch(0).Bytes(), pull = Wanted().Bytes();
  Rng rng(3);
  const auto any = [&](uint64_t sound) -> uint64_t {
    switch (rng.Below(8)) {
      case 0:
        return rng.Next();
      case 1:
        return rng.Below(2 * kBytes);
      case 2:
        return kBytes - rng.Below(3);
      case 3:
        return uint64_t{0} - rng.Below(5000);
      default:
        return sound;
    }
  };
  int refused = 0, taken = 0;
  for (int round = 0; round < 2000; ++round) {
    const auto op = rng.Chance(0.5) ? ParamsOp::kPush : ParamsOp::kPull;
    std::string bytes = op == ParamsOp::kPush ? push : pull;
    if (rng.Chance(0.5)) bytes[rng.Below(160)] = static_cast<char>(rng.Next());
    (void)Put(bytes);
    const SharedRequest request = {op, {any(0), any(bytes.size())}, {any(0), any(40000)}};
    ++(client.Ask(request).header.code == 0 ? taken : refused);
  }
  EXPECT_GT(refused, 500);
  EXPECT_GT(taken, 50);
  for (const std::string& body : {std::string(), std::string(39, 'x'), std::string(40, 'x')}) {
    EXPECT_NE(client.end().Ask(ParamsOp::kShared, body).header.code, 0);
  }
  const auto other = Client();
  ASSERT_TRUE(Declare(*other).ok());
  EXPECT_EQ(*Push(*other, 1000, /*epoch=*/77), PushOutcome::kApplied);
}

// A client that writes into its request while that is read, checked, logged and applied: whatever
// the server took it for, it is the same in the rows and in the log.
TEST_F(SharedRequestsTest, ScribblingChangesNothingThatWasRead) {
  ASSERT_TRUE(Start().ok());
  RawClient client(path(), *requests_, *replies_);
  ASSERT_EQ(client.Declare().header.code, 0);
  std::atomic<bool> stop = false;
  const size_t bytes = Batch(0).Bytes().size();
  const size_t gradients = bytes - kIds * static_cast<size_t>(kDim) * sizeof(float);
  const auto own = SharedArea::Open(FileDescriptor(dup(requests_->file())), Others::kWrite);
  ASSERT_TRUE(own.ok()) << own.status();
  std::thread scribbler([&] {
    Rng rng(9);
    volatile char* area = (*own)->data();
    while (!stop) {
      const auto value = static_cast<float>(rng.Uniform());
      char raw[sizeof(value)];
      std::memcpy(raw, &value, sizeof(value));
      const size_t at = gradients + rng.Below((bytes - gradients) / 4) * 4;
      for (size_t i = 0; i < sizeof(raw); ++i) area[at + i] = raw[i];
      if (rng.Chance(0.01)) area[rng.Below(bytes)] = static_cast<char>(rng.Next());
    }
  });
  for (int64_t n = 0; n < 300; ++n) {
    (void)client.Ask({ParamsOp::kPush, Put(Batch(n).Bytes()), {}});
  }
  stop = true;
  scribbler.join();
  const std::vector<float> rows = Rows();
  EXPECT_THAT(rows, Each(testing::Truly([](float value) { return std::isfinite(value); })));
  EXPECT_GT(server_->Stats().pushes, 30);
  server_->Stop();
  const absl::Status again = Start();
  ASSERT_TRUE(again.ok()) << again;
  EXPECT_EQ(Rows(), rows);
}

// ---- processes that die ----

// Pushes batches of `epoch` until it is killed.
int PushForEver(const std::string& root, int64_t epoch) {
  const auto client = StartTestClient(1);
  client->SetServers({TestServerOptions(root, 0, 1).address});
  RUBATO_CHECK_OK(Declare(*client));
  for (int64_t n = 0;; ++n) RUBATO_CHECK_OK(Push(*client, n, epoch).status());
}

int Serve(const std::string& root) {
  ParamsServerOptions options = TestServerOptions(root, 0, 1);
  options.threads = 1;
  const auto started = ParamsServer::Start(options);
  RUBATO_CHECK_OK(started.status());
  (*started)->SetView(1, {WorkerId(1)});
  pause();
  return 0;
}

class Process {
 public:
  Process(std::string role, std::string root, int64_t number) {
    std::string words[] = {"shared_requests_test", std::move(role), std::move(root),
                           absl::StrCat(number)};
    char* argv[] = {words[0].data(), words[1].data(), words[2].data(), words[3].data(), nullptr};
    RUBATO_CHECK(posix_spawn(&pid_, "/proc/self/exe", nullptr, nullptr, argv, environ) == 0);
  }
  ~Process() {
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  Process(const Process&) = delete;
  Process& operator=(const Process&) = delete;

  void Stop() {
    kill(pid_, SIGSTOP);
    int status = 0;
    RUBATO_CHECK(waitpid(pid_, &status, WUNTRACED) == pid_ && WIFSTOPPED(status));
  }
  void GoOn() { kill(pid_, SIGCONT); }

 private:
  pid_t pid_ = 0;
};

// Clients die in the midst of their requests: each push is in all rows or in none.
TEST_F(SharedRequestsTest, AClientsDeathLeavesWholePushes) {
  ASSERT_TRUE(Start().ok());
  Rng rng(4);
  for (int64_t epoch = 0; epoch < 8; ++epoch) {
    const int64_t until = server_->Stats().pushes + 1 + static_cast<int64_t>(rng.Below(30));
    const Process client(kPush, folder_.path(), epoch);
    while (server_->Stats().pushes < until) std::this_thread::yield();
  }
  while (server_->Stats().clients > 0) std::this_thread::yield();
  const std::vector<float> rows = Rows();
  const ParamsServerStats stats = server_->Stats();
  int64_t applied = 0;
  for (const auto& [epoch, positions] : stats.applied) applied += positions.size();
  EXPECT_EQ(applied, stats.pushes);
  EXPECT_THAT(rows, Each(-static_cast<float>(stats.pushes)));
}

// One that hangs up, being told that the server is elsewhere now, uses the place of its request
// again. A server that comes to read only then must not take what it finds for that request.
TEST_F(SharedRequestsTest, NobodyReadsForOneWhoHungUp) {
  Process server(kServe, folder_.path(), 0);
  auto client = std::make_unique<RawClient>(path(), *requests_, *replies_);
  ASSERT_EQ(client->Declare().header.code, 0);
  ASSERT_EQ(client->Ask({ParamsOp::kPush, Put(Batch(0).Bytes()), {}}).header.code, 0);
  server.Stop();
  const SharedRequest request = {ParamsOp::kPush, Put(Batch(1).Bytes()), {}};
  client->end().Say({.op = static_cast<uint16_t>(ParamsOp::kShared), .id = 6},
                    EncodeShared(request));
  client->end().HangUp();
  (void)Put(Batch(2).Bytes());
  server.GoOn();
  const auto clients = [&] {  // But for who asks.
    return InspectServer("unix:" + path(), absl::Seconds(20))->clients - 1;
  };
  while (clients() > 0) std::this_thread::yield();
  EXPECT_THAT(Rows(), Each(-1.0f));
}

// ---- a server by hand, and a real client ----

class RawServer {
 public:
  explicit RawServer(const std::string& path)
      : socket_(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const sockaddr_un address = UnixAddress(path);
    RUBATO_CHECK(
        bind(socket_.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0);
    RUBATO_CHECK(listen(socket_.get(), 5) == 0);
  }
  // Answers the next greeting with `word`, and keeps the files that came with it.
  RawEnd Welcome(absl::string_view word, std::vector<FileDescriptor>* files) {
    RawEnd end(FileDescriptor(accept(socket_.get(), nullptr, nullptr)));
    Heard greeting = end.Hear();
    *files = std::move(greeting.files);
    end.Say(greeting.header, word);
    return end;
  }

 private:
  FileDescriptor socket_;
};

uint64_t Inode(const FileDescriptor& file) {
  struct stat stat {};
  RUBATO_CHECK(fstat(file.get(), &stat) == 0);
  return stat.st_ino;
}

// Memory for answers is of one connection; an older server that knows of none hears plain frames.
TEST_F(SharedRequestsTest, WhatAClientOffers) {
  RawServer server(path());
  const auto client = Client();
  std::thread caller([&] {
    EXPECT_EQ(*Push(*client, 1), PushOutcome::kApplied);
    std::vector<float> rows;
    ASSERT_TRUE(Pull(*client, &rows).ok());
    EXPECT_THAT(rows, Each(2.5f));
    EXPECT_TRUE(absl::IsInternal(Pull(*client, &rows)));  // A lie.
    EXPECT_EQ(*Push(*client, 2), PushOutcome::kApplied);
  });
  const std::string pushed = Batch(1).Bytes();
  const auto op = static_cast<uint16_t>(ParamsOp::kShared);

  // The first one hears a push and dies.
  std::vector<FileDescriptor> files;
  RawEnd first = server.Welcome(kSharesMemory, &files);
  ASSERT_EQ(files.size(), 2u);
  const uint64_t inodes[] = {Inode(files[0]), Inode(files[1])};
  EXPECT_EQ(first.Hear().header.op, op);
  first.HangUp();

  RawEnd second = server.Welcome(kSharesMemory, &files);
  ASSERT_EQ(files.size(), 2u);
  EXPECT_EQ(Inode(files[0]), inodes[0]);
  EXPECT_NE(Inode(files[1]), inodes[1]);
  const auto requests = SharedArea::Open(std::move(files[0]), Others::kRead);
  const auto replies = SharedArea::Open(std::move(files[1]), Others::kWrite);
  ASSERT_TRUE(requests.ok() && replies.ok());
  Heard heard = second.Hear();
  ASSERT_EQ(heard.header.op, op);
  auto request = DecodeShared(heard.body);
  ASSERT_TRUE(request.ok());
  const auto body = (*requests)->At(request->request);
  ASSERT_TRUE(body.has_value());
  EXPECT_TRUE(absl::string_view(body->data(), body->size()) == pushed);
  second.Say({.op = static_cast<uint16_t>(ParamsOp::kPush), .id = heard.header.id},
             std::string(1, static_cast<char>(PushOutcome::kApplied)));

  heard = second.Hear();
  request = DecodeShared(heard.body);
  ASSERT_TRUE(request.ok());
  EXPECT_EQ(request->op, ParamsOp::kPull);
  std::string answer(request->reply.bytes, '\0');
  const std::vector<float> rows(kIds * static_cast<size_t>(kDim), 2.5f);
  std::memcpy(answer.data() + sizeof(PullReplyHead), rows.data(), rows.size() * sizeof(float));
  const auto place = (*replies)->At(request->reply);
  ASSERT_TRUE(place.has_value());
  answer.copy(place->data(), answer.size());
  second.Say({.op = op, .id = heard.header.id}, EncodeSharedReply(answer.size()));
  second.Say({.op = op, .id = second.Hear().header.id}, EncodeSharedReply(answer.size() + 1));

  // The next is as it was before anybody shared memory.
  EXPECT_EQ(second.Hear().header.op, op);
  second.HangUp();
  RawEnd third = server.Welcome("", &files);
  heard = third.Hear();
  EXPECT_EQ(heard.header.op, static_cast<uint16_t>(ParamsOp::kPush));
  EXPECT_TRUE(heard.body == Batch(2).Bytes());
  third.Say({.op = heard.header.op, .id = heard.header.id},
            std::string(1, static_cast<char>(PushOutcome::kApplied)));
  caller.join();
  client->Stop();
}

}  // namespace
}  // namespace rubato

int main(int argc, char** argv) {
  const std::string role = argc == 4 ? argv[1] : "";
  if (role == rubato::kServe) return rubato::Serve(argv[2]);
  if (role == rubato::kPush) return rubato::PushForEver(argv[2], std::atoll(argv[3]));
  testing::InitGoogleTest(&argc, argv);
  return RUN_ALL_TESTS();
}
