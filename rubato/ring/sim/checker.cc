#include "rubato/ring/sim/checker.h"

#include <algorithm>
#include <iterator>
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

const char* Name(RingRule rule) {
  constexpr const char* kNames[] = {
      "none",         "one view a number",  "one commit a step", "a majority agrees",
      "records once", "newcomers' weights", "one state",         "true belief",
      "state kept",   "foundings apart",    "nobody in doubt",   "journal",
      "agreement"};
  static_assert(std::size(kNames) == static_cast<size_t>(RingRule::kCount));
  return kNames[static_cast<size_t>(rule)];
}

void RingChecker::Fail(RingRule rule, std::string what) {
  if (!violation_.empty()) return;
  violation_ = std::move(what);
  broken_ = rule;
}

uint64_t RingChecker::FoundingOf(const GroupView& view) const {
  if (options_.issued) return 0;
  if (view.parent == 0 && view.size() > 0) return static_cast<uint64_t>(view.members[0].id.value());
  const auto it = founding_of_.find(view.parent);
  return it == founding_of_.end() ? 0 : it->second;
}

int64_t RingChecker::committed() const {
  if (options_.split_allowed) return static_cast<int64_t>(applied_.size());
  int64_t steps = 0;
  for (const auto& [founder, founding] : foundings_) {
    if (!founding.committed.empty()) steps += founding.committed.rbegin()->first;
  }
  return steps;
}

std::map<uint64_t, GroupView> RingChecker::newest() const {
  std::map<uint64_t, GroupView> newest;
  for (const auto& [founder, founding] : foundings_) {
    if (!founding.views.empty()) newest[founder] = founding.views.rbegin()->second;
  }
  return newest;
}

void RingChecker::Said(const ViewMessage& message) {
  const Proposal proposal(message.number, message.ballot);
  if (message.kind == ViewMessage::Kind::kAccept && message.view) {
    offers_[message.view->Mark()].insert(proposal);
    accepted_by_[proposal].insert(message.from.id);  // Its own word is on no wire.
  }
  if (message.kind == ViewMessage::Kind::kAccepted) accepted_by_[proposal].insert(message.from.id);
}

// Counted here anew: GroupView::IsMajority may be what is wrong.
bool RingChecker::MajorityAccepted(const GroupView& view, MemberId user) const {
  const auto before = used_.find(view.parent);
  if (before == used_.end()) return view.parent == 0;  // The founder's.
  const GroupView& old = before->second;
  const auto enough = [&](const std::set<MemberId>& agreed) {
    int count = 0;
    for (int rank = 0; rank < old.holders; ++rank) count += agreed.contains(old.members[rank].id);
    const bool with_oldest = old.holders > 0 && agreed.contains(old.members[0].id);
    return 2 * count > old.holders || (2 * count == old.holders && with_oldest);
  };
  const auto offers = offers_.find(view.Mark());
  if (offers == offers_.end()) return enough({user});  // There was nobody to tell.
  return std::any_of(offers->second.begin(), offers->second.end(),
                     [&](const Proposal& offer) { return enough(accepted_by_.at(offer)); });
}

void RingChecker::ViewUsed(MemberId member, const GroupView& view, Weights weights) {
  const uint64_t founder = FoundingOf(view);
  founding_of_[view.Mark()] = founder;
  if (belongs_to_.try_emplace(member, founder).first->second != founder) {
    return Fail(RingRule::kFoundingsApart,
                absl::StrCat(member.ToString(), " enters ", view.ToString(),
                             ", which is of another founding than it was"));
  }
  for (const GroupMember& other : view.members) {  // One who founds comes to nobody.
    const auto id = static_cast<uint64_t>(other.id.value());
    if (id == founder || !foundings_.contains(id)) continue;
    return Fail(RingRule::kFoundingsApart,
                absl::StrCat(view.ToString(), " has ", other.id.ToString(),
                             " in it, which founded a group of its own"));
  }
  Founding& founding = foundings_[founder];
  const bool agreed = options_.split_allowed || options_.issued;
  if (used_.try_emplace(view.Mark(), view).second && !agreed && !MajorityAccepted(view, member)) {
    return Fail(RingRule::kMajority,
                absl::StrCat(member.ToString(), " uses ", view.ToString(),
                             ", which no majority of the view before it accepted"));
  }
  if (!options_.split_allowed) {
    const auto [it, first] = founding.views.try_emplace(view.number, view);
    if (!(it->second == view)) {
      return Fail(RingRule::kOneViewANumber,
                  absl::StrCat("two views of one number are used: ", it->second.ToString(), "; ",
                               view.ToString()));
    }
    // Commits are in order of steps: only those after the view's begin matter.
    auto& committed = founding.committed;
    for (auto later = committed.upper_bound(view.step); first && later != committed.end();
         ++later) {
      if (later->second.view < view.number) {
        return Fail(RingRule::kOneCommitAStep,
                    absl::StrCat(view.ToString(), " begins before step ", later->first,
                                 ", committed in view ", later->second.view));
      }
    }
  }
  const auto before = used_.find(view.parent);
  const bool held = before != used_.end() && before->second.Holds(member);
  if (held && !view.Holds(member)) relearned_.emplace(view.Mark(), member);
  if (!view.Holds(member)) return;
  if (!founding.grown.contains(weights)) {
    return Fail(RingRule::kNewcomersWeights,
                absl::StrCat(member.ToString(), " holds ", view.ToString(),
                             " with weights that did not grow out of the founder's"));
  }
  const auto [base, is_first] = base_.try_emplace(view.Mark(), weights);
  if (base->second != weights) {
    Fail(RingRule::kOneState, absl::StrCat(member.ToString(), " begins ", view.ToString(),
                                           " with other weights than its first holder"));
  }
}

void RingChecker::Applied(MemberId member, const GroupView& view, int64_t step, Weights before,
                          const Sum& sum) {
  std::map<Weights, int64_t>& grown = Of(view).grown;
  const auto known = grown.find(before);
  if (known != grown.end() && known->second != step - 1) {
    return Fail(RingRule::kRecordsOnce, absl::StrCat(member.ToString(), " applies step ", step,
                                                     " to the weights after step ", known->second,
                                                     ": its records count twice, or others never"));
  }
  for (int element = 0; element + 1 < kSumElements; ++element) {
    uint64_t expected = 0;
    for (int i = 0; i < kMicrobatches; ++i) expected += GradientOf(before, step, i, element);
    if (sum[element] != expected) {
      return Fail(
          RingRule::kRecordsOnce,
          absl::StrCat(member.ToString(), " applies a sum of step ", step, " in view ", view.number,
                       " that does not hold every microbatch once at its weights"));
    }
  }
  const Weights after = ApplySum(before, sum);
  if (known != grown.end()) grown.emplace(after, step);
  const auto [it, first] = applied_.try_emplace({view.Mark(), step}, after);
  if (it->second != after) {
    return Fail(RingRule::kOneState,
                absl::StrCat(member.ToString(), " applies another sum of step ", step, " than ",
                             "others of view ", view.number));
  }
}

void RingChecker::Forgets(MemberId member, const GroupView& view) {
  Fail(RingRule::kStateKept,
       absl::StrCat(member.ToString(), " begins anew although it holds ", view.ToString()));
}

void RingChecker::Committed(const GroupView& view, int64_t step, Weights weights) {
  if (options_.split_allowed) return;
  Founding& founding = Of(view);
  const auto [it, first] = founding.committed.try_emplace(step, Commit{view.number, weights});
  if (it->second.view != view.number || it->second.weights != weights) {
    return Fail(RingRule::kOneCommitAStep,
                absl::StrCat("step ", step, " is committed in view ", it->second.view,
                             " and again in view ", view.number));
  }
  auto& views = founding.views;
  for (auto later = views.upper_bound(view.number); first && later != views.end(); ++later) {
    if (later->second.step < step) {
      return Fail(RingRule::kOneCommitAStep,
                  absl::StrCat("step ", step, " is committed in view ", view.number, " although ",
                               later->second.ToString(), " is used"));
    }
  }
}

void RingChecker::Believes(MemberId member, const GroupView& view, int64_t step, Weights weights) {
  if (options_.split_allowed) return;
  const Founding& founding = Of(view);
  const auto it = founding.committed.find(step);
  if (it == founding.committed.end()) {
    if (step == 0) return;  // The founder's.
    return Fail(RingRule::kTrueBelief, absl::StrCat(member.ToString(), " takes step ", step,
                                                    " for committed, which is not"));
  }
  if (it->second.weights != weights) {
    Fail(RingRule::kTrueBelief, absl::StrCat(member.ToString(), " takes step ", step,
                                             " for committed with other weights"));
  }
}

void RingChecker::LeftBehind(MemberId member, const GroupView& view) {
  if (options_.split_allowed || options_.issued || !view.Holds(member)) return;
  const Founding& founding = Of(view);
  if (!founding.views.empty() && founding.views.rbegin()->first > view.number) return;
  Fail(RingRule::kFoundingsApart,
       absl::StrCat(member.ToString(), " takes itself for left behind in ", view.ToString(),
                    ", which no later view of its founding follows"));
}

void RingChecker::Told(MemberId member, const GroupView& view) {
  if (Of(view).done) return;
  Fail(RingRule::kFoundingsApart,
       absl::StrCat(member.ToString(), " is told in ", view.ToString(),
                    " that training is done, which nobody of its founding has said"));
}

void RingChecker::Done(MemberId member, const GroupView& view, int64_t last_step) {
  Of(view).done = true;
  if (options_.split_allowed || Of(view).committed.contains(last_step)) return;
  Fail(RingRule::kTrueBelief,
       absl::StrCat(member.ToString(), " ends although step ", last_step, " is not committed"));
}

}  // namespace rubato
