#include "bench/params/server_process.h"

#include <signal.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <array>
#include <filesystem>
#include <future>
#include <memory>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "bench/params/measure.h"
#include "rubato/adapters/posix/params_server.h"
#include "rubato/base/status.h"

namespace rubato::bench {
namespace {

constexpr int kLine = 3;  // The child's end.
constexpr char kServe[] = "--serve";

void Say(int line, const std::string& text) {
  RUBATO_CHECK(send(line, text.data(), text.size(), 0) == static_cast<ssize_t>(text.size()));
}

// Empty once the other side is gone.
std::string Hear(int line) {
  std::array<char, 65536> text;
  const ssize_t bytes = recv(line, text.data(), text.size(), 0);
  return bytes <= 0 ? "" : std::string(text.data(), static_cast<size_t>(bytes));
}

// tell VIEW MAP MOVE FROM TO PARTITIONS ADDRESSES, bytes in hexadecimal.
void Obey(ParamsServer& server, const std::vector<std::string>& words) {
  const auto bytes = [&](size_t i) { return absl::HexStringToBytes(words[i]); };
  const auto map = PartitionMap::Decode(bytes(2));
  const auto partitions = DecodePartitions(bytes(6));
  RUBATO_CHECK_OK(map.status());
  RUBATO_CHECK_OK(partitions.status());
  const MoveOrder move = {std::stoll(words[3]), std::stoll(words[4]), std::stoll(words[5]),
                          *partitions};
  server.SetMap(std::stoll(words[1]), *map, move, absl::StrSplit(words[7], ','));
  server.SetView(std::stoll(words[1]), {WorkerId(1)});
}

std::string Answered(ParamsServer& server, const std::vector<std::string>& words) {
  if (words[0] == "address") return server.address();
  if (words[0] == "moved") return absl::StrCat(server.moved());
  if (words[0] == "tell") {
    Obey(server, words);
    return "told";
  }
  RUBATO_CHECK(words[0] == "checkpoint");
  std::promise<absl::Status> done;
  server.StartCheckpoint({.version = std::stoll(words[1])},
                         [&](absl::Status s) { done.set_value(s); });
  RUBATO_CHECK_OK(done.get_future().get());
  return "written";
}

}  // namespace

JobFolder::JobFolder() : root_(std::filesystem::temp_directory_path() / "rubato-bench-XXXXXX") {
  RUBATO_CHECK(mkdtemp(root_.data()) != nullptr);
}
JobFolder::~JobFolder() { std::filesystem::remove_all(root_); }

std::string JobFolder::AddressOf(int64_t server) const {
  return absl::StrCat("unix:", root_, "/socket-", server);
}

void ServerProcess::Launch() {
  int ends[2];
  RUBATO_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0);
  const std::string words =
      absl::StrJoin({options_.server, options_.servers,
                     int64_t{options_.tcp} + int64_t{options_.tls}, options_.threads},
                    " ");
  pid_ = fork();
  if (pid_ == 0) {
    dup2(ends[1], kLine);
    execl("/proc/self/exe", "server", kServe, options_.root.c_str(), words.c_str(), nullptr);
    _exit(127);
  }
  RUBATO_CHECK(pid_ > 0);
  close(ends[1]);
  line_ = ends[0];
}

void ServerProcess::Kill() {
  if (pid_ == 0) return;
  kill(pid_, SIGKILL);
  waitpid(pid_, nullptr, 0);
  close(line_);
  pid_ = 0;
}

double ServerProcess::Cpu() const {
  clockid_t clock{};
  RUBATO_CHECK(clock_getcpuclockid(pid_, &clock) == 0);
  return Seconds(clock);
}

std::string ServerProcess::Ask(const std::string& what) {
  Say(line_, what);
  const std::string answer = Hear(line_);
  RUBATO_CHECK(!answer.empty());
  return answer;
}

void ServerProcess::Tell(int64_t view, const PartitionMap& map, const MoveOrder& move,
                         const std::vector<std::string>& addresses) {
  Ask(absl::StrCat("tell ", view, " ", absl::BytesToHexString(map.Encode()), " ", move.number, " ",
                   move.from, " ", move.to, " ",
                   absl::BytesToHexString(EncodePartitions(move.partitions)), " ",
                   absl::StrJoin(addresses, ",")));
}

std::optional<int> ServerProcess::Main(int argc, char** argv) {
  if (argc != 4 || std::string(argv[1]) != kServe) return std::nullopt;
  const std::string root = argv[2];
  const std::vector<std::string> words = absl::StrSplit(argv[3], ' ');
  const int64_t server = std::stoll(words[0]);
  ParamsServerOptions options;
  options.server = ServerId(server);
  options.servers = std::stoll(words[1]);
  options.address = words[2] == "2"   ? "0.0.0.0:0"
                    : words[2] == "1" ? "127.0.0.1:0"
                                      : absl::StrCat("unix:", root, "/socket-", server);
  options.secret = kBenchSecret;
  options.threads = std::stoll(words[3]);
  options.directory = absl::StrCat(root, "/server-", server);
  options.checkpoints = root + "/checkpoints";
  options.job = "bench";
  options.spare_log_bytes = int64_t{1} << 32;  // What was put there counts as old, however much.
  const auto started = ParamsServer::Start(options);
  RUBATO_CHECK_OK(started.status());
  (*started)->SetView(1, {WorkerId(1)});
  while (true) {
    const std::string told = Hear(kLine);
    if (told.empty()) return 0;  // The parent is gone.
    Say(kLine, Answered(**started, absl::StrSplit(told, ' ')));
  }
}

}  // namespace rubato::bench
