// Data that workers wait for: told once for all of them, and so is its return.
#include "rubato/master/master.h"

namespace rubato {

void Master::HearAway(WorkerMember& worker, const std::optional<DataAway>& away, absl::Time now) {
  const bool waited = worker.away.has_value();
  worker.away = away;
  // One that has not asked for it meanwhile does not know.
  if (waited && !members_.AnyWaitsForData()) TellBack(now);
  if (!away.has_value() || away_.has_value() || verdict_.has_value()) return;
  // One that has yet to notice the return of what others have again.
  if (now - away->waited < back_at_) return;
  away_ = away;
  away_since_ = now - away->waited;
  Say(now, "data_away",
      {{"data", away->data},
       {"place", away->place},
       {"seconds", absl::ToDoubleSeconds(away->waited)}},
      away->why);
}

void Master::TellBack(absl::Time now) {
  if (!away_.has_value()) return;
  Say(now, "data_back",
      {{"data", away_->data},
       {"place", away_->place},
       {"seconds", absl::ToDoubleSeconds(now - away_since_)}});
  away_.reset();
  back_at_ = now;
}

}  // namespace rubato
