#include "rubato/adapters/posix/inspect_server.h"

#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/base/status.h"
#include "rubato/params/wire.h"

namespace rubato {

absl::StatusOr<ServerInspection> InspectServer(const std::string& address,
                                               absl::Duration patience) {
  RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
  absl::StatusOr<ServerInspection> answer = absl::DeadlineExceededError("no answer");
  asio::io_context io;
  std::shared_ptr<FrameSocket> line;
  const auto take = [&](const Frame& frame) {
    answer = frame.header.code == 0 ? DecodeInspection(frame.body) : frame.status();
    line->Close();
  };
  const auto attempt = ConnectTo(io, parsed, [&](absl::StatusOr<StreamSocket> socket) {
    if (!socket.ok()) {
      answer = socket.status();
      return;
    }
    line = std::make_shared<FrameSocket>(*std::move(socket), kFrameBytesMax);
    line->Start(take, [&](const absl::Status& why) { answer = why; });
    line->Send({.op = static_cast<uint16_t>(ParamsOp::kInspect)}, "", nullptr);
  });
  io.run_for(absl::ToChronoNanoseconds(patience));
  if (line != nullptr) line->Close();
  return answer.ok() ? answer : Annotate(answer.status(), address);
}

}  // namespace rubato
