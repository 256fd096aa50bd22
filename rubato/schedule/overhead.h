// What it costs a job to have its workers changed.
#ifndef RUBATO_SCHEDULE_OVERHEAD_H_
#define RUBATO_SCHEDULE_OVERHEAD_H_

namespace rubato {

// The public ElasticFlow formula: a base, and a part that grows with the logarithm of the workers,
// saved when the very same set of GPUs worked together before. Pure.
struct RescaleCost {
  double base_s = 0;
  double per_doubling_s = 0;

  // For a cluster of this size: 2 s, or 7 s from 256 GPUs on, and 2 s a doubling.
  static RescaleCost ForCluster(int gpus);
  static RescaleCost None() { return {}; }

  // Seconds without progress after a change to `gpus` workers that never worked together: the
  // most it can cost, so the figure to plan with.
  double Seconds(int gpus) const;
  // The same for a set of GPUs that did.
  double KnownSetSeconds() const { return base_s; }
};

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_OVERHEAD_H_
