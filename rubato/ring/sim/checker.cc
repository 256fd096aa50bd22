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
  if (!split_allowed_) {
    const auto [it, first] = views_.try_emplace(view.number, view);
    if (!(it->second == view)) {
      return Fail(absl::StrCat("two views of one number are used: ", it->second.ToString(), "; ",
                               view.ToString()));
    }
    // Commits are in order of steps: only those after the view's begin matter.
    for (auto later = committed_.upper_bound(view.step); first && later != committed_.end();
         ++later) {
      if (later->second.view < view.number) {
        return Fail(absl::StrCat(view.ToString(), " begins before step ", later->first,
                                 ", committed in view ", later->second.view));
      }
    }
  }
  if (!view.Holds(member)) return;
  if (!grown_.contains(weights)) {
    return Fail(absl::StrCat(member.ToString(), " holds ", view.ToString(),
                             " with weights that did not grow out of the founder's"));
  }
  const auto [base, is_first] = base_.try_emplace(view.Mark(), weights);
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
  const Weights after = ApplySum(before, sum);
  if (grown_.contains(before)) grown_.insert(after);
  const auto [it, first] = applied_.try_emplace({view.Mark(), step}, after);
  if (it->second != after) {
    return Fail(absl::StrCat(member.ToString(), " applies another sum of step ", step, " than ",
                             "others of view ", view.number));
  }
}

void RingChecker::Forgets(MemberId member, const GroupView& view) {
  Fail(absl::StrCat(member.ToString(), " begins anew although it holds ", view.ToString()));
}

void RingChecker::Committed(const GroupView& view, int64_t step, Weights weights) {
  if (split_allowed_) return;
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
  if (it == committed_.end()) {
    if (step == 0) return;  // The founder's.
    return Fail(
        absl::StrCat(member.ToString(), " takes step ", step, " for committed, which is not"));
  }
  if (it->second.weights != weights) {
    Fail(
        absl::StrCat(member.ToString(), " takes step ", step, " for committed with other weights"));
  }
}

}  // namespace rubato
