#include "rubato/membership/issued_views.h"

#include <algorithm>
#include <utility>

namespace rubato {

IssuedViews::IssuedViews(const Swim& swim, absl::Duration period, RingBug bug)
    : ViewSource(swim), period_(period), bug_(bug) {
  progress_ = {.finished = -1, .applied = -1, .voted = -1};
}

void IssuedViews::Receive(const ViewOrder& order, absl::Time now) {
  if (fenced_) return;
  answers_ = order.sequence;
  due_ = true;
  if (order.evicted && view_.number == 0) return Fence();
  if (order.view.number > view_.number) Adopt(order.view);
  if (fenced_ || order.view.number != view_.number || !order.let_go) return;
  order_ = order;
  Consider();
}

void IssuedViews::Adopt(const GroupView& view) {
  if (!view.Contains(self_.id)) {
    if (!view_.Contains(self_.id)) return;
    NoteLeft(view);
    return Fence();
  }
  Settle();
  if (bug_ == RingBug::kNone && !MayEnter(view)) {
    NoteLeft(view);
    return Fence();
  }
  Enter(view);
  entered_ = let_go_ = urgent_ = false;
  order_.reset();
  told_losses_.clear();
}

void IssuedViews::SetProgress(const StepProgress& progress, absl::Time now) {
  progress_ = progress;
  entered_ = member();
  Consider();
}

void IssuedViews::Tick(absl::Time now) {
  std::vector<Loss> losses = Losses();
  const bool proven = std::any_of(losses.begin(), losses.end(),
                                  [](const Loss& loss) { return IsProof(loss.reason); });
  if (member() && entered_ && (complained_ || proven)) LetGo(/*urgent=*/true);
  Consider();
  // Wishes and losses are told as soon as they are there, then with every report.
  if (told_losses_ != losses) due_ = true;
  told_losses_ = std::move(losses);
  if (told_caught_up_ != caught_up_ || told_leaving_ != leaving_) due_ = true;
}

void IssuedViews::Consider() {
  if (order_ && entered_ && progress_.finished >= order_->after_step) LetGo(/*urgent=*/false);
}

void IssuedViews::LetGo(bool urgent) {
  if (let_go_) return;
  let_go_ = true;
  urgent_ = urgent;
  frozen_ = bug_ != RingBug::kNoFencing;
  if (frozen_) Settle();
  due_ = true;
}

absl::Time IssuedViews::next_wake() const {
  if (fenced_) return absl::InfiniteFuture();
  return due_ ? absl::InfinitePast() : next_report_;
}

// Someone is ahead: the order that brought it there must come here too.
void IssuedViews::HearNumber(const GroupMember& from, uint64_t number, uint64_t mark,
                             absl::Time now) {
  if (member() && number > view_.number && now >= next_report_ - period_ * 0.9) due_ = true;
}

std::optional<ViewReport> IssuedViews::TakeReport(absl::Time now) {
  if (fenced_ || !(due_ || now >= next_report_)) return std::nullopt;
  due_ = false;
  next_report_ = now + period_;
  ViewReport report{.from = self_, .view = view_.number};
  report.let_go = let_go_;
  report.urgent = urgent_;
  report.level = told_caught_up_ = caught_up_;
  report.leaving = told_leaving_ = leaving_;
  report.progress = progress_;
  report.offer = offer_;
  report.lost = Losses();
  report.answers = answers_;
  return report;
}

}  // namespace rubato
