#include "rubato/roles/job_directory.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <variant>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "rubato/adapters/files/files.h"
#include "rubato/base/json_seal.h"
#include "rubato/base/json_text.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

// The master's address in processes.json; empty if it is not there.
std::string ReadMaster(const std::string& processes) {
  const absl::StatusOr<std::string> text = ReadWholeFile(processes);
  const auto document =
      nlohmann::json::parse(text.ok() ? *text : std::string("{}"), nullptr, false);
  return document.is_object() ? document.value("master", "") : "";
}

}  // namespace

absl::StatusOr<JobDirectory> JobDirectory::Create(const std::string& path) {
  const JobDirectory directory(path);
  if (PathExists(directory.job_file()) && PathExists(directory.checkpoints())) {
    return absl::AlreadyExistsError(
        absl::StrCat(path, ": a job lives there already; go on with it by `rubato train --resume ",
                     path, "`, or choose another --job-dir"));
  }
  std::error_code error;
  if (PathExists(path) && !std::filesystem::is_empty(path, error)) {
    return absl::AlreadyExistsError(absl::StrCat(
        path, error ? ": is not a folder" : ": is not empty", "; choose another --job-dir"));
  }
  for (const char* folder : {"/index", "/checkpoints", "/servers", "/metrics", "/logs"}) {
    RUBATO_RETURN_IF_ERROR(MakeDirectories(path + folder));
  }
  return directory;
}

absl::StatusOr<JobDirectory> JobDirectory::CreateNext(const std::string& name) {
  RUBATO_RETURN_IF_ERROR(MakeDirectories("rubato-jobs"));
  for (int n = 1;; ++n) {
    const std::string path = absl::StrCat("rubato-jobs/", name, "-", n);
    // mkdir decides between two submitters of one name.
    if (mkdir(path.c_str(), 0755) == 0) return Create(path);
    if (errno != EEXIST) return PathError(errno, "make the folder", path);
  }
}

absl::StatusOr<JobDirectory> JobDirectory::Open(const std::string& path) {
  const JobDirectory directory(path);
  RUBATO_RETURN_IF_ERROR(CheckMayLook(directory.job_file()));
  if (!PathExists(directory.job_file())) {
    return absl::NotFoundError(absl::StrCat(path, ": not a job directory (it has no job.yaml)"));
  }
  if (!PathExists(directory.checkpoints())) {
    return absl::NotFoundError(
        absl::StrCat(path, ": not a job directory, though a job.yaml is in it; `rubato train ",
                     directory.job_file(), "` runs that"));
  }
  return directory;
}

std::string JobDirectory::server(ServerId id) const {
  return absl::StrCat(path_, "/servers/", id.value());
}

std::string JobDirectory::log(Role role, int64_t id) const {
  if (role == Role::kMaster) return path_ + "/logs/master.log";
  return absl::StrCat(path_, "/logs/", RoleName(role), "-", id, ".log");
}

absl::StatusOr<std::shared_ptr<void>> JobDirectory::Lock() const {
  const std::string path = path_ + "/lock";
  RUBATO_ASSIGN_OR_RETURN(FileDescriptor file, OpenFile(path, O_RDWR | O_CREAT));
  bool locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  for (int i = 0; i < 10 && !locked; ++i) {  // Somebody may just be looking; see Locked().
    absl::SleepFor(absl::Milliseconds(10));
    locked = flock(file.get(), LOCK_EX | LOCK_NB) == 0;
  }
  if (!locked) {
    const absl::StatusOr<std::string> holder = ReadWholeFile(path);
    return absl::FailedPreconditionError(
        absl::StrCat(path_, ": the job is already running here, under process ",
                     holder.ok() && !holder->empty() ? *holder : std::string("unknown")));
  }
  if (ftruncate(file.get(), 0) != 0) return PathError(errno, "truncate", path);
  RUBATO_RETURN_IF_ERROR(WriteAll(file.get(), absl::StrCat(getpid()), path));
  return std::shared_ptr<void>(std::make_shared<FileDescriptor>(std::move(file)));
}

bool JobDirectory::Locked() const {
  const absl::StatusOr<FileDescriptor> file = OpenFile(path_ + "/lock", O_RDONLY);
  return file.ok() && flock(file->get(), LOCK_SH | LOCK_NB) != 0;
}

std::string JobDirectory::ProcessesText(const std::vector<ProcessStatus>& processes,
                                        const std::string& master_address) {
  nlohmann::ordered_json all = nlohmann::ordered_json::array();
  for (const ProcessStatus& process : processes) {
    all.push_back({{"role", std::string(RoleName(process.role))},
                   {"id", process.id},
                   {"incarnation", process.incarnation},
                   {"pid", process.pid},
                   {"address", process.address},
                   {"state", process.state}});
  }
  const nlohmann::ordered_json document = {{"master", master_address}, {"processes", all}};
  return JsonText(document, 1) + "\n";
}

absl::Status JobDirectory::WriteProcesses(const std::string& text) const {
  return WriteFileAtomically(processes_path(), text, Durability::kProcess);
}

absl::StatusOr<std::optional<int64_t>> JobDirectory::BestVersion() const {
  const absl::StatusOr<std::string> line = ReadWholeFile(best());
  if (absl::IsNotFound(line.status())) return std::optional<int64_t>();
  RUBATO_RETURN_IF_ERROR(line.status());
  std::string text;
  int64_t version = 0;
  if (!ReadSealedLine(*line, &text) || !absl::SimpleAtoi(text, &version) || version < 1) {
    return absl::DataLossError(absl::StrCat(best(), ": is damaged: it names no checkpoint"));
  }
  return std::optional<int64_t>(version);
}

bool JobDirectory::IsOfLoneWorker() const {
  if (PathExists(journal())) return false;
  std::error_code error;
  const bool empty = std::filesystem::is_empty(checkpoints(), error);
  return (!empty && !error) || ReadMaster(processes_path()) == kNoMaster;
}

absl::Status JobDirectory::CheckHasMaster() const {
  if (!IsOfLoneWorker()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path_, " is of a worker without a master; `rubato worker --resume ", path_,
                   "` goes on with it, `rubato show ", path_,
                   "` says how it stands, and it grows as others `--join` it"));
}

absl::Status JobDirectory::CheckNotDone() const {
  const absl::StatusOr<std::string> text = ReadWholeFile(summary());
  if (!text.ok()) return absl::OkStatus();
  const auto summary = nlohmann::json::parse(*text, nullptr, /*allow_exceptions=*/false);
  if (!summary.is_object() || summary.value("state", "") != "done") return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(path_, ": the job is done already; see its summary.json"));
}

absl::StatusOr<std::string> JobDirectory::MasterAddress() const {
  RUBATO_RETURN_IF_ERROR(CheckHasMaster());
  if (!Locked()) {
    return absl::FailedPreconditionError(absl::StrCat(
        path_, ": the job is not running; `rubato train --resume ", path_, "` goes on with it"));
  }
  const std::string address = ReadMaster(processes_path());
  if (address.empty()) {
    return absl::UnavailableError(absl::StrCat(path_, ": the job is still starting"));
  }
  return address;
}

absl::StatusOr<std::unique_ptr<EventLog>> EventLog::Open(const std::string& path) {
  const int file = open(path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
  if (file < 0) return PathError(errno, "open", path);
  return std::unique_ptr<EventLog>(new EventLog(file));
}

EventLog::~EventLog() { close(file_); }

void EventLog::Write(absl::Time now, absl::string_view kind, absl::string_view fields) {
  const std::string line = absl::StrCat(
      "{\"time\":\"", absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", now, absl::UTCTimeZone()),
      "\",\"event\":\"", kind, "\"", fields.empty() ? "" : ",", fields, "}\n");
  // A story of what happened: worth a try, never worth stopping the job for.
  [[maybe_unused]] const ssize_t written = write(file_, line.data(), line.size());
}

void EventLog::Write(const JobEvent& event) {
  nlohmann::ordered_json fields = nlohmann::ordered_json::object();
  for (const auto& [name, value] : event.fields) {
    std::visit([&, &name = name](const auto& v) { fields[name] = v; }, value);
  }
  if (!event.cause.empty()) fields["cause"] = event.cause;
  const std::string text = JsonText(fields);
  Write(event.time, event.kind, absl::string_view(text).substr(1, text.size() - 2));
}

}  // namespace rubato
