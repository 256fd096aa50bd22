// A `rubato worker` without a master, for a test: started by hand, in plain sight.
#ifndef RUBATO_TESTS_HAND_WORKER_H_
#define RUBATO_TESTS_HAND_WORKER_H_

#include <signal.h>

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "tests/job_runner.h"

namespace rubato {

inline constexpr absl::Duration kLong =
    absl::Seconds(150);  // A busy machine takes a while to start one.

// A worker started by hand, with a job directory of its own.
class Worker {
 public:
  Worker(const ScratchFolder& folder, const std::string& name, const std::string& job,
         const std::string& join = "", bool apart = false)
      : directory_(absl::StrCat(folder.path(), "/", name)),
        command_(Words(job, directory_, join), folder.path(), name, apart) {}
  // With all of its words.
  Worker(const ScratchFolder& folder, const std::string& name,
         const std::vector<std::string>& words)
      : directory_(absl::StrCat(folder.path(), "/", name)), command_(words, folder.path(), name) {}
  // Goes on from the checkpoint in `directory`.
  Worker(const ScratchFolder& folder, const std::string& directory)
      : directory_(directory),
        command_({"worker", "--resume", directory}, folder.path(), "resumed") {}

  // Where others find it; empty until it listens.
  std::string Address() const {
    for (absl::string_view line : absl::StrSplit(command_.err(), '\n')) {
      if (absl::ConsumePrefix(&line, "listening on ")) return std::string(line);
    }
    return "";
  }
  // Whether it has been in a view of so many workers who all hold the model.
  bool Trained(int workers) const {
    return command_.err().find(absl::StrCat(": ", workers, " workers, ", workers, " with the ")) !=
           std::string::npos;
  }
  // The same, once it has come true; false if it does not.
  bool Listens() const {
    return Eventually([&] { return !Address().empty(); }, kLong);
  }
  bool TrainsWith(int workers) const {
    return Eventually([&] { return Trained(workers); }, kLong);
  }
  bool Says(const std::string& words) const {
    return Eventually([&] { return Said(words); }, kLong);
  }
  std::string Checkpoint() const { return ReadText(directory_ + "/checkpoints/1/worker-0.ckpt"); }
  // Lines of its events.jsonl of one kind.
  std::vector<nlohmann::json> Events(const std::string& kind) const {
    std::vector<nlohmann::json> events;
    const std::string text = ReadText(directory_ + "/events.jsonl");
    for (const absl::string_view line : absl::StrSplit(text, '\n')) {
      const auto event = nlohmann::json::parse(line.begin(), line.end(), nullptr, false);
      if (event.is_object() && event.value("event", "") == kind) events.push_back(event);
    }
    return events;
  }
  nlohmann::json Summary() const {
    return nlohmann::json::parse(ReadText(directory_ + "/summary.json"), nullptr, false);
  }
  pid_t pid() const { return command_.pid(); }
  const std::string& directory() const { return directory_; }
  bool Said(const std::string& words) const {
    return command_.err().find(words) != std::string::npos;
  }
  std::string err() const { return command_.err(); }
  void Send(int signal) { kill(command_.pid(), signal); }
  CommandResult Wait() { return command_.Wait(); }

 private:
  static std::vector<std::string> Words(const std::string& job, const std::string& directory,
                                        const std::string& join) {
    std::vector<std::string> words = {"worker", "--job", job, "--job-dir", directory};
    if (!join.empty()) words.insert(words.end(), {"--join", join});
    return words;
  }

  const std::string directory_;
  Command command_;
};

}  // namespace rubato

#endif  // RUBATO_TESTS_HAND_WORKER_H_
