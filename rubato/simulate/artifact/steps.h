// Values from points in time on, as the artifact keeps them: free GPUs, or a job's planned GPUs.
#ifndef RUBATO_SIMULATE_ARTIFACT_STEPS_H_
#define RUBATO_SIMULATE_ARTIFACT_STEPS_H_

#include <cstddef>
#include <vector>

namespace rubato {

struct ArtifactStep {
  double at = 0;
  int value = 0;
};

// Sorted by time. Unlike Profile it keeps neighbours of equal value until told to merge: the
// artifact's arithmetic sees where it was cut.
class ArtifactSteps {
 public:
  ArtifactSteps() = default;
  explicit ArtifactSteps(ArtifactStep first) : steps_{first} {}

  size_t size() const { return steps_.size(); }
  bool empty() const { return steps_.empty(); }
  const ArtifactStep& operator[](size_t i) const { return steps_[i]; }
  ArtifactStep& operator[](size_t i) { return steps_[i]; }
  std::vector<ArtifactStep>::const_iterator begin() const { return steps_.begin(); }
  std::vector<ArtifactStep>::const_iterator end() const { return steps_.end(); }

  // The first step at or after `at`.
  size_t LowerBound(double at) const;
  bool Has(double at) const;
  // The value at exactly `at`; 0 if nothing was put there.
  int Get(double at) const;
  // Sets what holds from `at` on, cutting there if need be.
  void Set(double at, int value);
  // The value that holds at `at`; `before` if it lies before the first step.
  int Holding(double at, int before) const;
  // Drops steps that repeat the value of the one before.
  void Merge();
  // The sum of value x time until `end`, the last value holding until then. Steps past the end
  // count too, as in the artifact.
  double Area(double end) const;

 private:
  std::vector<ArtifactStep> steps_;
};

}  // namespace rubato

#endif  // RUBATO_SIMULATE_ARTIFACT_STEPS_H_
