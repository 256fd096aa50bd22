#include "rubato/adapters/ring/elastic_group_c.h"

#include <algorithm>
#include <cstddef>
#include <cstring>
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

thread_local std::string open_error;

int Report(rubato_group* group, const absl::Status& status) {
  if (status.ok()) return 0;
  group->error = status.ToString();
  if (absl::IsCancelled(status)) return RUBATO_LEFT;
  if (absl::IsDeadlineExceeded(status)) return RUBATO_LATE;
  return absl::IsAborted(status) ? RUBATO_AGAIN : RUBATO_FAILED;
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
  if (from.verdict_timeout_seconds > 0) {
    to.verdict_timeout = absl::Seconds(from.verdict_timeout_seconds);
  }
  if (from.listen != nullptr) to.listen = from.listen;
  for (size_t i = 0; i < from.join_count; ++i) to.join.emplace_back(from.join[i]);
  if (from.name != nullptr) to.name = from.name;
  if (from.secret != nullptr) to.secret = from.secret;
  if (from.contract != nullptr) to.contract = from.contract;
  if (from.quorum_any != 0) to.quorum = rubato::Quorum::kAny;
  to.shared_memory = from.no_shared_memory == 0;
  to.encrypt = from.no_encryption == 0;
  to.microbatches = from.microbatches;
  for (size_t i = 0; i < from.state_count; ++i) {
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
  const auto open = [&]() -> absl::StatusOr<std::unique_ptr<rubato::ElasticGroup>> {
    RUBATO_ASSIGN_OR_RETURN(const rubato_group_options known, Known(options));
    RUBATO_ASSIGN_OR_RETURN(rubato::GroupOptions converted, Convert(known));
    return rubato::ElasticGroup::Open(std::move(converted));
  };
  auto opened = open();
  if (!opened.ok()) {
    open_error = opened.status().ToString();
    return nullptr;
  }
  return new rubato_group{*std::move(opened), {}, {}};
}

void rubato_group_close(rubato_group* group) { delete group; }

int rubato_group_begin_step(rubato_group* group, double timeout_seconds, rubato_step* step) {
  const auto plan = group->group->BeginStep(absl::Seconds(timeout_seconds));
  if (!plan.ok()) return Report(group, plan.status());
  *step = {plan->step, plan->view, plan->quota.begin, plan->quota.end, plan->rank, plan->size};
  return 0;
}

int rubato_group_allreduce(rubato_group* group, float* values, size_t count) {
  return Report(group, group->group->Allreduce(absl::MakeSpan(values, count)));
}

int rubato_group_allreduce_last(rubato_group* group, float* values, size_t count) {
  return Report(group, group->group->AllreduceLast(absl::MakeSpan(values, count)));
}

int rubato_group_start_allreduce(rubato_group* group, float* values, size_t count) {
  return Report(group, group->group->StartAllreduce(absl::MakeSpan(values, count)));
}

int rubato_group_wait(rubato_group* group) { return Report(group, group->group->Wait()); }

int rubato_group_broadcast(rubato_group* group, void* bytes, size_t count, int root) {
  return Report(group,
                group->group->Broadcast(absl::MakeSpan(static_cast<char*>(bytes), count), root));
}

int rubato_group_barrier(rubato_group* group) { return Report(group, group->group->Barrier()); }

int rubato_group_commit(rubato_group* group) {
  const absl::StatusOr<bool> committed = group->group->Commit();
  if (!committed.ok()) return Report(group, committed.status());
  return *committed ? 0 : RUBATO_AGAIN;
}

void rubato_group_before_change(rubato_group* group, const void* bytes, size_t count) {
  group->group->BeforeChange(absl::MakeConstSpan(static_cast<const char*>(bytes), count));
}

void rubato_group_leave(rubato_group* group) { group->group->Leave(); }

void rubato_group_say_finished(rubato_group* group) { group->group->SayFinished(); }

int rubato_group_over(const rubato_group* group) { return group->group->over(); }

int64_t rubato_group_step(const rubato_group* group) { return group->group->step(); }
int64_t rubato_group_committed(const rubato_group* group) { return group->group->committed(); }
int rubato_group_size(const rubato_group* group) { return group->group->view().size(); }
int rubato_group_learning(const rubato_group* group) { return group->group->learning(); }
int rubato_group_encrypted(const rubato_group* group) { return group->group->encrypted(); }

const char* rubato_group_member(rubato_group* group, int rank) {
  const rubato::GroupView view = group->group->view();
  if (rank < 0 || rank >= view.size()) return nullptr;
  group->text = view.members[rank].address.substr(0, view.members[rank].address.find(';'));
  return group->text.c_str();
}

const char* rubato_group_address(rubato_group* group) {
  group->text = group->group->address();
  return group->text.c_str();
}

const char* rubato_group_error(const rubato_group* group) {
  return group != nullptr ? group->error.c_str() : open_error.c_str();
}
