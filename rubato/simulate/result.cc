#include "rubato/simulate/result.h"

#include <algorithm>
#include <cmath>
#include <numeric>

namespace rubato {

Percentiles Summarize(std::vector<double> values) {
  Percentiles p;
  if (values.empty()) return p;
  std::sort(values.begin(), values.end());
  const double n = static_cast<double>(values.size());
  const auto rank = [&](double q) {
    const size_t i = static_cast<size_t>(std::ceil(q * n));
    return values[std::min(values.size(), std::max<size_t>(i, 1)) - 1];
  };
  p.mean = std::accumulate(values.begin(), values.end(), 0.0) / n;
  p.p50 = rank(0.50);
  p.p95 = rank(0.95);
  p.p99 = rank(0.99);
  p.max = values.back();
  return p;
}

void TallyJobs(SimulationResult& result) {
  double first = kNever, last = 0;
  std::vector<double> all, best_effort;
  for (const JobResult& job : result.job_results) {
    ++result.jobs;
    first = std::min(first, job.submit_s);
    job.admitted ? ++result.admitted : ++result.refused;
    if (!job.best_effort) {
      ++result.deadline_jobs;
      if (job.met) ++result.met;
      if (job.admitted && !job.met) ++result.late_admitted;
    }
    if (job.end_s == kNever) continue;
    ++result.completed;
    last = std::max(last, job.end_s);
    all.push_back(job.end_s - job.submit_s);
    if (job.best_effort) best_effort.push_back(all.back());
  }
  result.deadline_ratio =
      result.deadline_jobs == 0 ? 1 : static_cast<double>(result.met) / result.deadline_jobs;
  result.makespan_s = last > 0 ? last - first : 0;
  result.jct_s = Summarize(std::move(all));
  result.best_effort_jct_s = Summarize(std::move(best_effort));
}

}  // namespace rubato
