#include "rubato/cluster/placement_audit.h"

#include <algorithm>
#include <string>

#include "absl/strings/str_format.h"
#include "rubato/base/status.h"

namespace rubato {
namespace {

absl::Status Broken(const PlacementAudit::Held& held, const std::string& what) {
  return absl::InternalError(absl::StrFormat("%s, %d GPUs in pool %d, %s", held.job.ToString(),
                                             held.gpus, held.pool, what));
}

}  // namespace

PlacementAudit::PlacementAudit(const ClusterSpec& spec) : nodes_(spec.nodes) {
  serves_.assign(static_cast<size_t>(spec.gpus()), kDown);
  for (size_t n = 0; n < nodes_.size(); ++n) Serve(static_cast<int>(n), nodes_[n].pool);
  owner_.assign(serves_.size(), kNobody);
  before_.assign(serves_.size(), kNobody);
}

void PlacementAudit::Serve(int n, int pool) {
  const Node& node = nodes_[static_cast<size_t>(n)];
  std::fill_n(serves_.begin() + node.first_gpu, node.gpus, pool);
}

int PlacementAudit::GpusBefore(JobId job) {
  size_t& at = next_before_;
  while (at < counts_before_.size() && counts_before_[at].first < job) ++at;
  return at < counts_before_.size() && counts_before_[at].first == job ? counts_before_[at].second
                                                                       : 0;
}

absl::Status PlacementAudit::Take(const Held& held, int& kept) {
  kept = 0;
  if (held.where.size() != static_cast<size_t>(held.gpus)) {
    return Broken(held, absl::StrFormat("holds %d", held.where.size()));
  }
  for (int gpu : held.where) {
    if (gpu < 0 || gpu >= static_cast<int>(serves_.size())) {
      return Broken(held, absl::StrFormat("holds GPU %d, which there is not", gpu));
    }
    const size_t g = static_cast<size_t>(gpu);
    if (serves_[g] == kDown) {
      return Broken(held, absl::StrFormat("holds GPU %d of a node out of service", gpu));
    }
    if (serves_[g] != held.pool) {
      return Broken(held, absl::StrFormat("holds GPU %d of pool %d", gpu, serves_[g]));
    }
    if (owner_[g] != kNobody) {
      return Broken(held, absl::StrFormat("holds GPU %d twice, or beside another job", gpu));
    }
    owner_[g] = held.job.value();
    kept += before_[g] == held.job.value() ? 1 : 0;
  }
  return absl::OkStatus();
}

absl::Status PlacementAudit::CheckChange(const Held& held, int kept, bool said) {
  const int had = GpusBefore(held.job);
  const bool stays = had == held.gpus && kept == had;
  if (stays || (said && !held.pinned)) return absl::OkStatus();
  if (!said) return Broken(held, "holds other GPUs than before, and nobody said so");
  return had == held.gpus ? Broken(held, "was moved though pinned") : absl::OkStatus();
}

absl::Status PlacementAudit::Look(absl::Span<const Held> jobs, absl::Span<const JobId> changed) {
  owner_.swap(before_);
  std::fill(owner_.begin(), owner_.end(), kNobody);
  counts_.swap(counts_before_);
  counts_.clear();
  next_before_ = 0;
  for (const Held& held : jobs) {
    int kept = 0;
    RUBATO_RETURN_IF_ERROR(Take(held, kept));
    const bool said = std::binary_search(changed.begin(), changed.end(), held.job);
    RUBATO_RETURN_IF_ERROR(CheckChange(held, kept, said));
    counts_.push_back({held.job, held.gpus});
  }
  return absl::OkStatus();
}

}  // namespace rubato
