// What tests of views have in common: short names, and the members of a group without a network.
#ifndef RUBATO_MEMBERSHIP_VIEWS_TESTING_H_
#define RUBATO_MEMBERSHIP_VIEWS_TESTING_H_

#include <memory>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/membership/views.h"

namespace rubato {

inline GroupMember M(int i) { return {MemberId(i), absl::StrCat("m", i)}; }

// Without its past, to compare.
inline GroupView Plain(GroupView view) {
  view.parent = 0;
  return view;
}

inline GroupView ViewOf(uint64_t number, std::vector<int> ids, int holders, int64_t step) {
  GroupView view{.number = number, .holders = holders, .step = step};
  for (int id : ids) view.members.push_back(M(id));
  return view;
}

// Views over detectors that believe what the test says; packets wait until the test moves them.
class Assembly {
 public:
  // The first `holders` of them hold the state; -1: all.
  Assembly(int count, ViewOptions options = {}, int holders = -1) {
    GroupView view = ViewOf(1, {}, holders < 0 ? count : holders, 0);
    for (int i = 0; i < count; ++i) view.members.push_back(M(i));
    for (int i = 0; i < count; ++i) {
      swims_.push_back(std::make_unique<Swim>(M(i), SwimOptions(), Rng(i)));
      for (int j = 0; j < count; ++j) {
        if (i != j) swims_[i]->Introduce(M(j), now);
      }
      views_.push_back(std::make_unique<Views>(*swims_[i], options, Rng(100 + i)));
      views_[i]->Adopt(view, now);
    }
  }

  void Bury(int dead) {
    for (auto& swim : swims_) swim->ReportLost(MemberId(dead), /*proven=*/true, now);
    down.insert(dead);
  }
  // One has come, and nobody but `member` knows.
  void Introduce(int newcomer, int member) { swims_[member]->Introduce(M(newcomer), now); }
  // A learner has the whole state.
  void Level(int learner) {
    const int64_t step = views_[learner]->view().step;
    views_[learner]->SetProgress({.finished = step, .applied = step, .voted = step}, now);
    views_[learner]->SetCaughtUp(true);
  }
  // What they send each other is lost from now on, and no detector says so.
  void Sever(int a, int b) { severed_ = {{a, b}, {b, a}}; }
  // Delivers what is under way, once; messages of kinds in `lost` vanish.
  bool Deliver(std::set<ViewMessage::Kind> lost = {}) {
    std::vector<std::pair<int, Views::Send>> all;
    for (size_t i = 0; i < views_.size(); ++i) {
      for (Views::Send& send : views_[i]->TakeSends()) {
        if (!down.contains(i)) all.emplace_back(i, std::move(send));
      }
    }
    for (const auto& [from, send] : all) {
      const int to = std::stoi(send.to.substr(1));
      if (send.message.kind == ViewMessage::Kind::kPrepare) proposers.insert(from);
      if (severed_.contains({from, to})) continue;
      if (down.contains(to) || lost.contains(send.message.kind)) continue;
      views_[to]->Receive(send.message, now);
    }
    return !all.empty();
  }
  void RunFor(absl::Duration time) {
    for (const absl::Time end = now + time; now < end; now += absl::Milliseconds(10)) {
      for (size_t i = 0; i < views_.size(); ++i) {
        if (!down.contains(i)) views_[i]->Tick(now);
      }
      while (Deliver()) {
      }
    }
  }
  Views& operator[](int i) { return *views_[i]; }

  absl::Time now = absl::UnixEpoch();
  std::set<size_t> down;
  std::set<int> proposers;  // Who has asked another for its promise.

 private:
  std::vector<std::unique_ptr<Swim>> swims_;
  std::vector<std::unique_ptr<Views>> views_;
  std::set<std::pair<int, int>> severed_;
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_VIEWS_TESTING_H_
