#include "rubato/ring/sim/checker.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/base/rng.h"

namespace rubato {

uint64_t GradientOf(Weights weights, int64_t step, int index, int element) {
  return Mix(Mix(weights, static_cast<uint64_t>(step)), static_cast<uint64_t>(index * 8 + element));
}

Weights ApplySum(Weights weights, const Sum& sum) {
  for (uint64_t element : sum) weights = Mix(weights, element);
  return weights;
}

void RingChecker::Fail(std::string what) {
  if (violation_.empty()) violation_ = std::move(what);
}

void RingChecker::ViewUsed(MemberId member, const GroupView& view, Weights weights) {
  if (split_allowed_) return;
  const auto [it, first] = views_.try_emplace(view.number, view);
  if (!(it->second == view)) {
    return Fail(absl::StrCat("two views of one number are used: ", it->second.ToString(), "; ",
                             view.ToString()));
  }
  for (const auto& [step, commit] : committed_) {
    if (first && commit.view < view.number && step > view.step) {
      return Fail(absl::StrCat(view.ToString(), " begins before step ", step,
                               ", committed in view ", commit.view));
    }
  }
  if (!view.Holds(member)) return;
  const auto [base, is_first] = base_.try_emplace(view.number, weights);
  if (base->second != weights) {
    Fail(absl::StrCat(member.ToString(), " begins ", view.ToString(),
                      " with other weights than its first holder"));
  }
}

void RingChecker::Applied(MemberId member, const GroupView& view, int64_t step, Weights before,
                          const Sum& sum) {
  for (int element = 0; element + 1 < kSumElements; ++element) {
    uint64_t expected = 0;
    for (int i = 0; i < kMicrobatches; ++i) expected += GradientOf(before, step, i, element);
    if (sum[element] != expected) {
      return Fail(absl::StrCat(member.ToString(), " applies a sum of step ", step, " in view ",
                               view.number,
                               " that does not hold every microbatch once at its weights"));
    }
  }
  if (split_allowed_) return;
  const Weights after = ApplySum(before, sum);
  std::set<MemberId>& who = applied_[{step, view.number, after}];
  if (view.Holds(member)) who.insert(member);
  if (static_cast<int>(who.size()) >= view.Majority()) Committed(view, step, after);
}

void RingChecker::Committed(const GroupView& view, int64_t step, Weights weights) {
  const auto [it, first] = committed_.try_emplace(step, Commit{view.number, weights});
  if (it->second.view != view.number || it->second.weights != weights) {
    return Fail(absl::StrCat("step ", step, " is committed in view ", it->second.view,
                             " and again in view ", view.number));
  }
  for (auto later = views_.upper_bound(view.number); first && later != views_.end(); ++later) {
    if (later->second.step < step) {
      return Fail(absl::StrCat("step ", step, " is committed in view ", view.number, " although ",
                               later->second.ToString(), " is used"));
    }
  }
}

void RingChecker::Believes(MemberId member, int64_t step, Weights weights) {
  if (split_allowed_) return;
  const auto it = committed_.find(step);
  // A view may begin at a step that only its own members are about to apply: then it is its base.
  bool base = false;
  for (const auto& [number, view] : views_) base = base || (view.step == step);
  if (it == committed_.end() && !base) {
    return Fail(absl::StrCat(member.ToString(), " takes step ", step, " for committed, which a ",
                             "majority has not applied"));
  }
  if (it != committed_.end() && it->second.weights != weights) {
    Fail(
        absl::StrCat(member.ToString(), " takes step ", step, " for committed with other weights"));
  }
}

}  // namespace rubato
