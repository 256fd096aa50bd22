// A member's side of views that a master issues.
//
//     member ── ViewReport: where I am, whom I lost, whether I let go ──▶ ViewAuthority
//            ◀── ViewOrder: the view that counts, whether to let go of it ──
//
// Both messages are whole states, not events: each may be lost, doubled or overtaken, and the next
// one makes it good. A member that knows another to have ended lets go at once and says so, so that
// the master needs no more than one report from each survivor to issue the next view. Gossip
// between the members only detects: one that only seems dead is told of, and what follows is the
// master's to say. For it may only have slept, and where there is no master nobody could undo what
// its silence had begun.
#ifndef RUBATO_MEMBERSHIP_ISSUED_VIEWS_H_
#define RUBATO_MEMBERSHIP_ISSUED_VIEWS_H_

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/time/time.h"
#include "rubato/membership/view_source.h"

namespace rubato {

struct ViewReport {
  GroupMember from;
  uint64_t view = 0;    // The one it is in; 0: none yet, let me in.
  bool let_go = false;  // Of that view; applied and voted stay as they are.
  bool urgent = false;  // It let go of its own accord.
  bool level = false;   // A learner that has caught up.
  bool leaving = false;
  StepProgress progress;
  // A newcomer's: the step after which its own weights are, to found a group; -1: none.
  int64_t offer = -1;
  std::vector<Loss> lost;
  uint64_t answers = 0;  // The last order that came.
};

struct ViewOrder {
  GroupView view;
  bool let_go = false;
  int64_t after_step = 0;  // Let go when this step is finished.
  bool evicted = false;    // The receiver was in a view, perhaps unknown to it, and is out again.
  uint64_t sequence = 0;
};

class IssuedViews : public ViewSource {
 public:
  // Reports at least every `period`, as a sign of life.
  IssuedViews(const Swim& swim, absl::Duration period, RingBug bug = RingBug::kNone);

  void Receive(const ViewOrder& order, absl::Time now);
  void Tick(absl::Time now) override;
  absl::Time next_wake() const override;
  void HearNumber(const GroupMember& from, uint64_t number, uint64_t mark, absl::Time now) override;
  void SetProgress(const StepProgress& progress, absl::Time now) override;

  // What to tell the master now, if anything.
  std::optional<ViewReport> TakeReport(absl::Time now);

 private:
  void Adopt(const GroupView& view);
  // Lets go if it is time to.
  void Consider();
  void LetGo(bool urgent);

  const absl::Duration period_;
  const RingBug bug_;
  bool entered_ = false;  // The steps have reported since the view began.
  bool let_go_ = false;   // As frozen_, which a planted bug may leave alone.
  bool urgent_ = false;
  std::optional<ViewOrder> order_;  // To let go.
  uint64_t answers_ = 0;
  bool due_ = true;  // There is news.
  std::vector<Loss> told_losses_;
  bool told_caught_up_ = false;  // With the last report.
  bool told_leaving_ = false;
  absl::Time next_report_ = absl::InfinitePast();
};

}  // namespace rubato

#endif  // RUBATO_MEMBERSHIP_ISSUED_VIEWS_H_
