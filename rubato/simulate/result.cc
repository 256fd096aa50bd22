#include "rubato/simulate/result.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <limits>
#include <numeric>

namespace rubato {

Percentiles Summarize(std::vector<double> values) {
  Percentiles p;
  if (values.empty()) {
    p.mean = p.p50 = p.p95 = p.p99 = p.max = std::numeric_limits<double>::quiet_NaN();
    return p;
  }
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
      if (job.admitted && !job.met) ++(job.soft ? result.late_soft : result.late_admitted);
    }
    if (job.end_s == kNever) continue;
    ++result.completed;
    last = std::max(last, job.end_s);
    all.push_back(job.end_s - job.submit_s);
    if (job.best_effort) best_effort.push_back(all.back());
  }
  result.deadline_ratio =
      result.deadline_jobs == 0 ? 1 : static_cast<double>(result.met) / result.deadline_jobs;
  result.makespan_s =
      result.completed > 0 ? last - first : std::numeric_limits<double>::quiet_NaN();
  result.jct_s = Summarize(std::move(all));
  result.best_effort_jct_s = Summarize(std::move(best_effort));
}

void TallyDecisions(const std::vector<DecisionTime>& times, SimulationResult& result) {
  std::vector<double> all;
  std::vector<std::vector<double>> by_active;  // The k-th for at most 2^k active jobs.
  double active_sum = 0;
  for (const DecisionTime& time : times) {
    all.push_back(time.us);
    active_sum += time.active;
    result.max_active_jobs = std::max(result.max_active_jobs, time.active);
    const auto k = static_cast<size_t>(std::bit_width(std::max(1u, unsigned(time.active)) - 1));
    if (by_active.size() <= k) by_active.resize(k + 1);
    by_active[k].push_back(time.us);
  }
  result.decisions = static_cast<int64_t>(times.size());
  result.mean_active_jobs = active_sum / std::max<double>(1, result.decisions);
  result.decision_us = Summarize(std::move(all));
  for (size_t k = 0; k < by_active.size(); ++k) {
    if (by_active[k].empty()) continue;
    const auto count = static_cast<int64_t>(by_active[k].size());
    result.decision_cost.push_back({1 << k, count, Summarize(std::move(by_active[k]))});
  }
}

}  // namespace rubato
