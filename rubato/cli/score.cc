// rubato score DIR: an exported model, or a job's newest checkpoint, behind HTTP.
#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/http/http_server.h"
#include "rubato/adapters/posix/real_clock.h"
#include "rubato/adapters/posix/signals.h"
#include "rubato/base/status.h"
#include "rubato/cli/checkpoint_flag.h"
#include "rubato/cli/commands.h"
#include "rubato/roles/scoring.h"

namespace rubato {
namespace {

struct ScoreFlags {
  std::string model;
  int64_t from = 0;
  HttpOptions http = {.address = "127.0.0.1:8080"};
};

absl::StatusOr<int> RunScore(const ScoreFlags& flags, Console& console) {
  CatchStopSignals();
  RUBATO_ASSIGN_OR_RETURN(Servable servable, OpenServable(flags.model, flags.from));
  const RealClock clock;
  RUBATO_ASSIGN_OR_RETURN(const auto scoring, Scoring::Make(std::move(servable), clock));
  absl::StatusOr<std::unique_ptr<HttpServer>> server =
      HttpServer::Start(flags.http, [&](const HttpRequest& r) { return scoring->Handle(r); });
  if (!server.ok()) return Annotate(server.status(), "--listen");
  console.err << "scoring with " << scoring->description() << " on http://" << (*server)->address()
              << "\n";
  while (StopSignals() == 0) absl::SleepFor(absl::Milliseconds(50));
  server->reset();
  console.err << "stopped\n";
  return kExitDone;
}

}  // namespace

void AddScore(Cli& cli) {
  auto flags = std::make_shared<ScoreFlags>();
  Console& console = cli.console();
  CLI::App* command =
      cli.Command("score", "Score rows over HTTP: POST /score, GET /health, GET /metrics.",
                  "  rubato score model --listen 127.0.0.1:8080\n"
                  "  curl -d '{\"rows\": [{\"age\": 39}]}' 127.0.0.1:8080/score\n",
                  [flags, &console] { return RunScore(*flags, console); });
  command->add_option("model", flags->model, "An export, or a job directory.")->required();
  command
      ->add_option("--from", flags->from,
                   "Of a job: which checkpoint; default the best kept, or the newest.")
      ->transform(CheckpointNumber());
  command->add_option("--listen", flags->http.address,
                      "host:port; port 0 takes a free one. Default 127.0.0.1:8080.");
  command->add_option("--threads", flags->http.threads, "Requests worked on at a time; default 8.")
      ->check(CLI::Range(1, 1024));
  command->add_option("--body-max", flags->http.body_bytes_max,
                      "Bytes of one request at most; default 8 MB.");
}

}  // namespace rubato
