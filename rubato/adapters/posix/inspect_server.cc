#include "rubato/adapters/posix/inspect_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/frame_links.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {

namespace {

// One server asked. Stays where it is until the answer is there, or nobody waits for it any more.
struct Question {
  void Ask(asio::io_context& io, const FrameLinks& links, const SocketAddress& address) {
    if (const absl::Status sound = links.Check(address); !sound.ok()) {
      answer = sound;
      return;
    }
    attempt = ConnectTo(io, address, [this, &links, address](absl::StatusOr<StreamSocket> socket) {
      if (!socket.ok()) {
        answer = socket.status();
        return;
      }
      line = links.Open(*std::move(socket), address, TlsSide::kConnects, kFrameBytesMax);
      line->Start(
          [this](const Frame& frame) {
            answer = frame.header.code == 0 ? DecodeInspection(frame.body) : frame.status();
            line->Close();
          },
          [this](const absl::Status& why) { answer = why; });
      line->Send({.op = static_cast<uint16_t>(ParamsOp::kInspect)}, "", nullptr);
    });
  }

  std::shared_ptr<void> attempt;
  std::shared_ptr<FrameSocket> line;
  absl::StatusOr<ServerInspection> answer = absl::DeadlineExceededError("no answer");
};

}  // namespace

std::vector<absl::StatusOr<ServerInspection>> InspectServers(
    const std::vector<std::string>& addresses, absl::Duration patience, const std::string& secret) {
  const FrameLinks links(secret);
  asio::io_context io;
  std::vector<Question> questions(addresses.size());
  for (size_t i = 0; i < addresses.size(); ++i) {
    const absl::StatusOr<SocketAddress> parsed = SocketAddress::Parse(addresses[i]);
    if (parsed.ok()) {
      questions[i].Ask(io, links, *parsed);
    } else {
      questions[i].answer = parsed.status();
    }
  }
  io.run_for(absl::ToChronoNanoseconds(patience));
  std::vector<absl::StatusOr<ServerInspection>> answers;
  for (size_t i = 0; i < addresses.size(); ++i) {
    Question& question = questions[i];
    if (question.line != nullptr) question.line->Close();
    if (!question.answer.ok()) question.answer = Annotate(question.answer.status(), addresses[i]);
    answers.push_back(std::move(question.answer));
  }
  return answers;
}

absl::StatusOr<ServerInspection> InspectServer(const std::string& address, absl::Duration patience,
                                               const std::string& secret) {
  return std::move(InspectServers({address}, patience, secret)[0]);
}

}  // namespace rubato
