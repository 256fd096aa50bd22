// What a worker without a master tells of its group: what happened, and one record for each
// failure. Pure: views, changes and the time go in, events come out; GroupLoop writes them to its
// directory.
//
// Nobody sees the whole group, and there is no place that all can write to. So every survivor keeps
// the record of what it saw itself, in the words that a master would use: whoever looks into any
// worker's directory finds each failure that worker lived through, once, with the phases as they
// were there. Workers have no numbers here; they are called by their address.
#ifndef RUBATO_ROLES_CHRONICLE_H_
#define RUBATO_ROLES_CHRONICLE_H_

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "absl/time/time.h"
#include "rubato/adapters/ring/elastic_group.h"
#include "rubato/master/effect.h"
#include "rubato/master/failures.h"
#include "rubato/membership/view.h"

namespace rubato {

class Chronicle {
 public:
  using Fields = std::vector<std::pair<std::string, JobEvent::Value>>;

  // `self`: where this worker listens, HOST:PORT.
  explicit Chronicle(std::string self) : self_(std::move(self)) {}

  // How training stood when a view began.
  struct Standing {
    int64_t steps = 0;   // Committed.
    bool over = false;   // All is trained: whoever goes now has done what it came for.
    absl::Time noticed;  // This worker let go of the view before.
  };
  // `gone` are those of the view before who are not in this one.
  void Enter(const GroupView& view, const std::vector<Departure>& gone, const Standing& standing,
             absl::Time now);
  // There is no view to train in, for want of these. Answers with the causes, or nothing if none is
  // known. On which side of a cut this worker is only a view can say: until one is agreed without
  // them nobody is lost, but those whose end is proven. If none comes, their ends are told without
  // what they cost, for nothing goes on.
  std::string Miss(const std::vector<Departure>& missed, const Standing& standing, absl::Time now);
  // The others went on without this worker, after `parting.step`. What they say of those whom that
  // view left out is told as they say it; of what they do not say, nothing.
  void Part(const Parting& parting, const Standing& standing, absl::Time now);
  // One that came has died before any view had it: nobody waited for it.
  void LoseNewcomer(const Departure& departure, const Standing& standing, absl::Time now);
  // A step was taken in `change.view`: what the failures before it cost is known.
  void Resume(const GroupChange& change, absl::Time now);
  // No more will be known of anyone.
  void End(absl::Time now);
  // Anything else.
  void Say(std::string kind, Fields fields, std::string cause, absl::Time now);

  std::vector<JobEvent> TakeEvents();

  const std::string& self() const { return self_; }
  bool in_group() const { return view_.number > 0; }  // It has been, at least.
  const GroupView& view() const { return view_; }
  // Who is in the view, and what was seen of workers so far.
  void Describe(Snapshot* snapshot) const;

 private:
  void Depart(const Departure& departure, const GroupView& next, const Standing& standing,
              absl::Time now);
  // One that was left out with this worker. Answers with why, if that may be the first cause.
  std::string PartWith(const Departure& departure, const Standing& standing, absl::Time now);
  // What is known of the end of one who is gone, or missed; `next` may know who noticed.
  Failure FailureOf(const Departure& departure, const Standing& standing, const GroupView& next,
                    absl::Time now) const;
  void Tell(WorkerId worker, const Failure& failure, absl::Time now);
  // As people know it.
  std::string NameOf(MemberId member, const GroupView& next) const;

  const std::string self_;
  GroupView view_;
  Failures failures_;                   // By the member's id.
  std::map<WorkerId, Failure> missed_;  // Who has ended, and has not left a view.
  int64_t seen_ = 0;                    // Lives in all views together,
  int64_t lost_ = 0;                    // those of them that ended,
  int64_t most_ = 0;                    // and how many there were at once.
  std::vector<JobEvent> events_;
};

}  // namespace rubato

#endif  // RUBATO_ROLES_CHRONICLE_H_
