#include "rubato/adapters/posix/params_server_moves.h"

#include <utility>

#include "rubato/net/buffer.h"
#include "rubato/net/frame.h"
#include "rubato/params/wire.h"

namespace rubato {
namespace {

constexpr absl::Duration kReconnect = absl::Milliseconds(20);

}  // namespace

MoveLine::MoveLine(asio::io_context& io, MoveLineOptions options, SharedMutex& mu,
                   MoveSource& source, std::function<void()> changed)
    : options_(std::move(options)),
      mu_(mu),
      source_(source),
      changed_(std::move(changed)),
      line_(io, *options_.links, kReconnect,
            {.greeted = [this](const Frame&) { Take(absl::OkStatus(), /*greeting=*/true); },
             .answered = [this](const Frame& frame) { Take(frame.status(), /*greeting=*/false); },
             .lost = [this] { Lost(); },
             .refused = [this](const absl::Status&) { Lost(); }}) {}

void MoveLine::SetPeer(const std::string& address) {
  Hello hello;
  std::string wanted;
  {
    WriterLock lock(mu_);
    wanted = source_.to() < 0 ? "" : address;
    // A ready one needs no line, and a new order a new one, even to the same server.
    if (wanted == line_.address() && source_.to() == to_ && source_.order() == order_) return;
    to_ = source_.to();
    order_ = source_.order();
    source_.Lost();
  }
  hello.job = options_.job;
  hello.server = to_;
  hello.servers = options_.servers;
  line_.Open(wanted, Greeting(hello));
}

void MoveLine::Lost() {
  {
    WriterLock lock(mu_);
    source_.Lost();
  }
  changed_();
}

void MoveLine::Take(const absl::Status& answer, bool greeting) {
  if (!answer.ok()) {
    absl::Duration pause;
    {
      WriterLock lock(mu_);
      source_.Refused(answer);
      pause = source_.pause();
    }
    line_.Again(pause);
    return Lost();
  }
  {
    WriterLock lock(mu_);
    if (greeting) {
      source_.Connected();
    } else {
      source_.Answered(absl::OkStatus());
    }
  }
  Pump();
}

void MoveLine::Pump() {
  if (!line_.greeted()) return;
  const auto send = [&](const MoveRecord& record) {
    auto body = std::make_shared<Buffer>();
    body->Put<uint64_t>(static_cast<uint64_t>(record.first));
    body->Append(record.second.data(), record.second.size());
    line_.Send({.op = static_cast<uint16_t>(ParamsOp::kArrive), .id = next_id_++}, body->view(),
               body);
  };
  while (true) {
    std::vector<MoveRecord> records;
    {
      WriterLock lock(mu_);
      records = source_.Next();
    }
    if (records.empty()) break;
    for (const MoveRecord& record : records) send(record);
  }
  changed_();
}

}  // namespace rubato
