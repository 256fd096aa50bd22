#include "rubato/adapters/ring/elastic_group_c.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/base/status.h"

struct rubato_group {
  std::unique_ptr<rubato::ElasticGroup> group;
  std::string error;
  std::string text;  // What a const char* handed out points to.
};

namespace {

using Group = rubato::ElasticGroup;

// Of calls that have no group to keep it.
thread_local std::string own_error;

// Nothing may be thrown into a program in C: neither what `apply` throws, nor for want of memory.
template <typename F>
absl::Status Guard(F run) {
  try {
    return run();
  } catch (const std::exception& thrown) {
    return absl::UnknownError(absl::StrCat("an exception: ", thrown.what()));
  } catch (...) {
    return absl::UnknownError("an exception of no known kind");
  }
}

int SayNoGroup() {
  own_error = absl::InvalidArgumentError("group is null").ToString();
  return RUBATO_FAILED;
}

template <typename F>
int Call(rubato_group* group, F call) {
  if (group == nullptr) return SayNoGroup();
  const absl::Status status = Guard([&] { return call(*group->group); });
  if (status.ok()) return 0;
  group->error = status.ToString();
  if (absl::IsCancelled(status)) return RUBATO_LEFT;
  if (absl::IsDeadlineExceeded(status)) return RUBATO_LATE;
  return absl::IsAborted(status) ? RUBATO_AGAIN : RUBATO_FAILED;
}

// What is asked, or `failed` if it cannot be told.
template <typename T, typename F>
T Ask(const rubato_group* group, T failed, F question) {
  if (group == nullptr) {
    SayNoGroup();
    return failed;
  }
  T answer = failed;
  const absl::Status status = Guard([&] {
    answer = question(*group->group);
    return absl::OkStatus();
  });
  if (!status.ok()) own_error = status.ToString();
  return answer;
}

absl::Status CheckThere(const char* what, const void* at, size_t count, const char* unit) {
  if (at != nullptr || count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(absl::StrCat(what, " is null, but has ", count, unit));
}

absl::Status CheckList(const char* count_name, size_t count, const char* what, const void* at) {
  if (at != nullptr || count == 0) return absl::OkStatus();
  return absl::InvalidArgumentError(
      absl::StrCat(count_name, " is ", count, ", but ", what, " is null"));
}

// By their numbers in the header.
constexpr rubato::GroupNetwork kNetworks[] = {
    rubato::GroupNetwork::kLoopback, rubato::GroupNetwork::kLan, rubato::GroupNetwork::kWan};
constexpr rubato::WireFormat kWires[] = {rubato::WireFormat::kFp32, rubato::WireFormat::kBf16,
                                         rubato::WireFormat::kFp16};

template <typename T>
absl::StatusOr<T> Chosen(const char* what, const T (&all)[3], int number) {
  if (number >= 0 && number < 3) return all[number];
  return absl::InvalidArgumentError(absl::StrCat("no ", what, " has number ", number));
}

// All members of the first version; there is no padding after the last.
constexpr size_t kFirstBytes =
    offsetof(rubato_group_options, reserved) + sizeof(rubato_group_options::reserved);
constexpr size_t kBytesMax = 1 << 16;  // No version will have more: it is no size at all.

// What the caller has filled of what this version knows, the rest being zero.
absl::StatusOr<rubato_group_options> Known(const rubato_group_options* from) {
  const size_t size = from->size == 0 ? kFirstBytes : from->size;
  if (size < kFirstBytes || size > kBytesMax) {
    return absl::InvalidArgumentError(
        absl::StrCat("rubato_group_options.size is ", size, ": it must be 0 or ",
                     "sizeof(rubato_group_options), which is ", sizeof(rubato_group_options),
                     " here: begin with RUBATO_GROUP_OPTIONS_INIT"));
  }
  rubato_group_options known = {};
  std::memcpy(&known, from, std::min(size, sizeof(known)));
  const char* const bytes = reinterpret_cast<const char*>(from);
  for (size_t i = sizeof(known); i < size; ++i) {
    if (bytes[i] == 0) continue;
    return absl::InvalidArgumentError(absl::StrCat(
        "rubato_group_options has ", size, " bytes, of which this library knows the first ",
        sizeof(known), ", and byte ", i, " is set: use the library of the version that the program",
        " was built for, or leave zero what is new in it"));
  }
  if (known.reserved != 0) {
    return absl::InvalidArgumentError("rubato_group_options.reserved must be 0");
  }
  return known;
}

absl::StatusOr<rubato::GroupOptions> Convert(const rubato_group_options& from) {
  rubato::GroupOptions to;
  RUBATO_ASSIGN_OR_RETURN(to.network, Chosen("network", kNetworks, from.network));
  RUBATO_ASSIGN_OR_RETURN(to.wire, Chosen("wire format", kWires, from.wire));
  if (from.first_step < 0) {
    return absl::InvalidArgumentError(
        absl::StrCat("rubato_group_options.first_step is ", from.first_step,
                     ": it is the step that the state is after, 0 for a new one"));
  }
  to.first_step = from.first_step;
  to.kept_bytes_max = from.kept_bytes_max;
  to.names_changes = from.names_changes != 0;
  if (from.kept_folder != nullptr) to.kept_folder = from.kept_folder;
  if (std::isnan(from.verdict_timeout_seconds)) {
    return absl::InvalidArgumentError("verdict_timeout_seconds is not a number");
  }
  if (from.verdict_timeout_seconds > 0) {
    to.verdict_timeout = absl::Seconds(from.verdict_timeout_seconds);
  }
  if (from.listen != nullptr) to.listen = from.listen;
  RUBATO_RETURN_IF_ERROR(CheckList("join_count", from.join_count, "join", from.join));
  for (size_t i = 0; i < from.join_count; ++i) {
    if (from.join[i] == nullptr) {
      return absl::InvalidArgumentError(absl::StrCat("join[", i, "] is null"));
    }
    to.join.emplace_back(from.join[i]);
  }
  if (from.name != nullptr) to.name = from.name;
  if (from.secret != nullptr) to.secret = from.secret;
  if (from.contract != nullptr) to.contract = from.contract;
  if (from.quorum_any != 0) to.quorum = rubato::Quorum::kAny;
  to.shared_memory = from.no_shared_memory == 0;
  to.encrypt = from.no_encryption == 0;
  to.microbatches = from.microbatches;
  RUBATO_RETURN_IF_ERROR(CheckList("state_count", from.state_count, "state", from.state));
  RUBATO_RETURN_IF_ERROR(
      CheckList("state_count", from.state_count, "state_bytes", from.state_bytes));
  for (size_t i = 0; i < from.state_count; ++i) {
    const std::string piece = absl::StrCat("state[", i, "]");
    RUBATO_RETURN_IF_ERROR(CheckThere(piece.c_str(), from.state[i], from.state_bytes[i], " bytes"));
    to.state.push_back(absl::MakeSpan(static_cast<char*>(from.state[i]), from.state_bytes[i]));
  }
  if (from.apply != nullptr) {
    to.apply = [apply = from.apply, context = from.context] { apply(context); };
  }
  if (from.on_change != nullptr) {
    to.on_change = [changed = from.on_change,
                    context = from.context](const rubato::GroupView& view) {
      changed(context, view.number, view.size());
    };
  }
  return to;
}

}  // namespace

rubato_group* rubato_group_open(const rubato_group_options* options) {
  rubato_group* group = nullptr;
  const absl::Status opened = Guard([&]() -> absl::Status {
    if (options == nullptr) return absl::InvalidArgumentError("options is null");
    RUBATO_ASSIGN_OR_RETURN(const rubato_group_options known, Known(options));
    RUBATO_ASSIGN_OR_RETURN(rubato::GroupOptions converted, Convert(known));
    RUBATO_ASSIGN_OR_RETURN(auto open, rubato::ElasticGroup::Open(std::move(converted)));
    group = new rubato_group{std::move(open), {}, {}};
    return absl::OkStatus();
  });
  if (!opened.ok()) own_error = opened.ToString();
  return group;
}

void rubato_group_close(rubato_group* group) { delete group; }

int rubato_group_begin_step(rubato_group* group, double timeout_seconds, rubato_step* step) {
  return Call(group, [&](Group& members) -> absl::Status {
    if (step == nullptr) return absl::InvalidArgumentError("step is null");
    if (std::isnan(timeout_seconds)) {
      return absl::InvalidArgumentError("timeout_seconds is not a number");
    }
    RUBATO_ASSIGN_OR_RETURN(const rubato::StepPlan plan,
                            members.BeginStep(absl::Seconds(timeout_seconds)));
    *step = {plan.step, plan.view, plan.quota.begin, plan.quota.end, plan.rank, plan.size};
    return absl::OkStatus();
  });
}

int rubato_group_allreduce(rubato_group* group, float* values, size_t count) {
  return Call(group, [&](Group& members) {
    RUBATO_RETURN_IF_ERROR(CheckThere("values", values, count, ""));
    return members.Allreduce(absl::MakeSpan(values, count));
  });
}

int rubato_group_allreduce_last(rubato_group* group, float* values, size_t count) {
  return Call(group, [&](Group& members) {
    RUBATO_RETURN_IF_ERROR(CheckThere("values", values, count, ""));
    return members.AllreduceLast(absl::MakeSpan(values, count));
  });
}

int rubato_group_start_allreduce(rubato_group* group, float* values, size_t count) {
  return Call(group, [&](Group& members) {
    RUBATO_RETURN_IF_ERROR(CheckThere("values", values, count, ""));
    return members.StartAllreduce(absl::MakeSpan(values, count));
  });
}

int rubato_group_wait(rubato_group* group) {
  return Call(group, [](Group& members) { return members.Wait(); });
}

int rubato_group_broadcast(rubato_group* group, void* bytes, size_t count, int root) {
  return Call(group, [&](Group& members) {
    RUBATO_RETURN_IF_ERROR(CheckThere("bytes", bytes, count, ""));
    return members.Broadcast(absl::MakeSpan(static_cast<char*>(bytes), count), root);
  });
}

int rubato_group_barrier(rubato_group* group) {
  return Call(group, [](Group& members) { return members.Barrier(); });
}

int rubato_group_commit(rubato_group* group) {
  return Call(group, [](Group& members) -> absl::Status {
    RUBATO_ASSIGN_OR_RETURN(const bool applied, members.Commit());
    return applied ? absl::OkStatus() : absl::AbortedError("the step counts for nobody");
  });
}

void rubato_group_before_change(rubato_group* group, const void* bytes, size_t count) {
  Call(group, [&](Group& members) {
    RUBATO_RETURN_IF_ERROR(CheckThere("bytes", bytes, count, ""));
    members.BeforeChange(absl::MakeConstSpan(static_cast<const char*>(bytes), count));
    return absl::OkStatus();
  });
}

void rubato_group_leave(rubato_group* group) {
  Call(group, [](Group& members) {
    members.Leave();
    return absl::OkStatus();
  });
}

void rubato_group_say_finished(rubato_group* group) {
  Call(group, [](Group& members) {
    members.SayFinished();
    return absl::OkStatus();
  });
}

int rubato_group_over(const rubato_group* group) {
  return Ask(group, RUBATO_FAILED, [](const Group& members) { return members.over() ? 1 : 0; });
}

int64_t rubato_group_step(const rubato_group* group) {
  return Ask(group, int64_t{RUBATO_FAILED}, [](const Group& members) { return members.step(); });
}

int64_t rubato_group_committed(const rubato_group* group) {
  return Ask(group, int64_t{RUBATO_FAILED},
             [](const Group& members) { return members.committed(); });
}

int rubato_group_size(const rubato_group* group) {
  return Ask(group, RUBATO_FAILED, [](const Group& members) { return members.view().size(); });
}

int rubato_group_learning(const rubato_group* group) {
  return Ask(group, RUBATO_FAILED, [](const Group& members) { return members.learning() ? 1 : 0; });
}

int rubato_group_encrypted(const rubato_group* group) {
  return Ask(group, RUBATO_FAILED,
             [](const Group& members) { return members.encrypted() ? 1 : 0; });
}

const char* rubato_group_member(rubato_group* group, int rank) {
  return Ask(group, static_cast<const char*>(nullptr), [&](const Group& members) -> const char* {
    const rubato::GroupView view = members.view();
    if (rank < 0 || rank >= view.size()) return nullptr;
    group->text = view.members[rank].address.substr(0, view.members[rank].address.find(';'));
    return group->text.c_str();
  });
}

const char* rubato_group_address(rubato_group* group) {
  return Ask(group, static_cast<const char*>(nullptr), [&](const Group& members) {
    group->text = members.address();
    return group->text.c_str();
  });
}

const char* rubato_group_error(const rubato_group* group) {
  return group != nullptr ? group->error.c_str() : own_error.c_str();
}
