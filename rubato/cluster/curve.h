// How fast a job runs: iterations per second as a function of its GPUs.
#ifndef RUBATO_CLUSTER_CURVE_H_
#define RUBATO_CLUSTER_CURVE_H_

#include <algorithm>
#include <array>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"

namespace rubato {

// How far a set of GPUs reaches: the smallest part of the topology tree that holds them all.
enum class Span { kGpu, kSocket, kNode, kRack, kCluster };
inline constexpr size_t kSpans = 5;

struct CurvePoint {
  int gpus = 0;
  double rate = 0;  // Iterations per second, at the tightest placement.
  friend bool operator==(const CurvePoint&, const CurvePoint&) = default;
};

// Immutable. The counts it knows are the job's legal sizes.
class Curve {
 public:
  Curve() = default;
  // Points in any order; those with a rate that is not positive are left out, since they mean
  // "does not run".
  explicit Curve(std::vector<CurvePoint> points);
  // gpus x `rate_per_gpu` for 1..gpus_max: work that scales without loss.
  static Curve Linear(double rate_per_gpu, int gpus_max);

  // All legal sizes, ascending.
  const std::vector<CurvePoint>& points() const { return points_; }
  // The sizes worth having: each faster than all smaller ones. Ends at the peak.
  const std::vector<CurvePoint>& useful() const { return useful_; }
  bool empty() const { return points_.empty(); }

  // 0 if `gpus` is not a legal size; so also for 0.
  double Rate(int gpus) const {
    return gpus > 0 && gpus < static_cast<int>(rates_.size()) ? rates_[static_cast<size_t>(gpus)]
                                                              : 0;
  }
  // The rate when the GPUs reach as far as `span`; Rate(gpus) where no limit was set.
  double Rate(int gpus, Span span) const {
    if (by_span_.empty() || Rate(gpus) == 0) return Rate(gpus);
    return by_span_[static_cast<size_t>(gpus)][static_cast<size_t>(span)];
  }
  // Reaching as far as `span`, or farther, so many GPUs are at most this fast. Nothing happens if
  // `gpus` is not a legal size.
  void Limit(int gpus, Span span, double rate);
  bool Legal(int gpus) const { return Rate(gpus) > 0; }

  int min_gpus() const { return points_.empty() ? 0 : points_.front().gpus; }
  int max_gpus() const { return points_.empty() ? 0 : points_.back().gpus; }
  // Where it is fastest; the smallest such size.
  int peak_gpus() const { return useful_.empty() ? 0 : useful_.back().gpus; }
  double peak_rate() const { return useful_.empty() ? 0 : useful_.back().rate; }

  // The largest useful size of at most `gpus`; 0 if none.
  int UsefulAtMost(int gpus) const { return AtMost(useful_at_most_, gpus); }
  // The largest legal size of at most `gpus`, useful or not; 0 if none.
  int LegalAtMost(int gpus) const { return AtMost(legal_at_most_, gpus); }
  // The smallest legal size of at least `gpus`; 0 if none.
  int LegalAtLeast(int gpus) const;
  // The next larger useful size; `gpus` itself at or past the peak.
  int UsefulAfter(int gpus) const;

 private:
  static int AtMost(const std::vector<int>& sizes, int gpus) {
    if (gpus <= 0 || sizes.empty()) return 0;
    return sizes[std::min(static_cast<size_t>(gpus), sizes.size() - 1)];
  }

  std::vector<CurvePoint> points_;
  std::vector<CurvePoint> useful_;
  std::vector<int> legal_at_most_, useful_at_most_;  // By count.
  std::vector<double> rates_;                        // By count; 0 where not legal.
  std::vector<std::array<double, kSpans>> by_span_;  // By count, then span; empty without limits.
};

// All known curves, by model, global batch size and GPU type.
class CurveBook {
 public:
  void Add(absl::string_view model, int batch_size, absl::string_view gpu_type, Curve curve);
  // Null if never profiled. Stays valid while the book lives.
  const Curve* Find(absl::string_view model, int batch_size, absl::string_view gpu_type) const;
  // "bert: 64 128; vgg16: 64", for messages.
  std::string Known(absl::string_view gpu_type) const;
  bool Knows(absl::string_view gpu_type) const;

  // Adds the rows of one profile: a CSV with `global_batch_size` and one column a GPU count. Cells
  // that are empty, nan or 0 mean that this count does not run, `?` that it was not measured and
  // is to be estimated from the others. With a column `span` (socket, node, rack, cluster; empty
  // for the tightest placement) further rows tell how fast it is when the GPUs reach so far; a
  // count that such a row leaves out is estimated too.
  absl::Status AddCsv(absl::string_view text, absl::string_view name, absl::string_view model,
                      absl::string_view gpu_type);

 private:
  std::map<std::tuple<std::string, std::string, int>, Curve> curves_;  // (type, model, batch)
};

}  // namespace rubato

#endif  // RUBATO_CLUSTER_CURVE_H_
