#include "rubato/schedule/fill.h"

#include <algorithm>
#include <optional>

namespace rubato {
namespace {

constexpr double kRounding = 1e-9;  // Relative; sums of products are not exact.

// Lays a job down step by step, remembering what it is to take: taking it at once would cut the
// steps under its feet. Neighbours in which it has its full size are one piece.
class Laying {
 public:
  // `at_most` says which sizes it may have.
  Laying(const FillRequest& request, const Profile& profile, int (Curve::*at_most)(int) const)
      : request_(request), profile_(profile), at_most_(at_most), left_(request.work) {}

  // Goes through steps [first, last) with at most `most` GPUs, not past until_s; true when done.
  bool Through(size_t first, size_t last, int most, double until_s) {
    const Curve& curve = *request_.curve;
    const int full = (curve.*at_most_)(most);
    for (size_t i = first; i < last;) {
      const double from_s = std::max(request_.from_s, profile_.from_s(i));
      if (from_s >= until_s) return false;
      const bool fits = profile_.free(i) >= full;
      const int gpus = fits ? full : (curve.*at_most_)(profile_.free(i));
      if (pieces_.empty() && from_s == request_.from_s) filling_.first_gpus = gpus;
      if (gpus == 0) {
        ++i;
        continue;
      }
      const double rate = curve.Rate(gpus);
      double to_s = from_s;
      bool done = false;
      do {
        const double step_s = to_s;
        to_s = std::min(profile_.EndOf(i), until_s);
        done = left_ <= rate * (to_s - step_s) * (1 + kRounding);
        if (done) to_s = std::min(to_s, step_s + left_ / rate);
        left_ -= rate * (to_s - step_s);
        filling_.gpu_seconds += gpus * (to_s - step_s);
        ++i;
      } while (!done && fits && i < last && to_s < until_s && profile_.free(i) >= full);
      pieces_.push_back({from_s, to_s, gpus});
      filling_.end_s = to_s;
      if (done) return true;
    }
    return false;
  }

  Filling Take(Profile& profile) const {
    for (const Piece& piece : pieces_) profile.Add(piece.from_s, piece.to_s, -piece.gpus);
    return filling_;
  }

 private:
  struct Piece {
    double from_s, to_s;
    int gpus;
  };

  const FillRequest& request_;
  const Profile& profile_;
  int (Curve::*const at_most_)(int) const;
  double left_;  // Work.
  absl::InlinedVector<Piece, 16> pieces_;
  Filling filling_;
};

// Going back from the deadline, the first step from which on min(level, free) gathers enough.
std::optional<size_t> EnoughFrom(const FillRequest& request, const Profile& profile,
                                 const CurvePoint& level) {
  const Curve& curve = *request.curve;
  const size_t first = profile.Find(request.from_s);
  double need = request.work / (1 + kRounding), to_s = request.deadline_s;
  for (size_t end = profile.Find(request.deadline_s) + 1; end > first;) {
    if (const int free = profile.free(end - 1); free < level.gpus) {
      --end;
      const double from_s = std::max(request.from_s, profile.from_s(end));
      need -= curve.Rate(curve.UsefulAtMost(free)) * (to_s - from_s);
      if (need <= 0) return end;
      to_s = from_s;
      continue;
    }
    const double enough_s = to_s - need / level.rate;
    const size_t enough = std::max(first, profile.Find(enough_s));
    const size_t below = profile.LastBelow(enough, end, level.gpus);
    if (below == end) return enough_s >= request.from_s ? std::optional(enough) : std::nullopt;
    end = below + 1;
    need -= level.rate * (to_s - profile.from_s(end));
    to_s = profile.from_s(end);
  }
  return std::nullopt;
}

}  // namespace

Filling FillByLevels(const FillRequest& request, Profile& profile) {
  const Curve& curve = *request.curve;
  const int cap = request.max_gpus > 0 ? request.max_gpus : curve.peak_gpus();
  if (request.deadline_s <= request.from_s) return {};
  int below = 0;
  for (const CurvePoint& level : curve.useful()) {
    if (level.gpus > cap) break;
    // Not even if this many were free all the time; the margin is beyond what sums are off by.
    const double most = level.rate * (request.deadline_s - request.from_s);
    const auto from = most * (1 + 1e3 * kRounding) < request.work
                          ? std::nullopt
                          : EnoughFrom(request, profile, level);
    if (from.has_value()) {
      Laying laying(request, profile, &Curve::UsefulAtMost);
      const size_t first = profile.Find(request.from_s);
      if (!laying.Through(first, *from, below, request.deadline_s)) {
        laying.Through(*from, profile.size(), level.gpus, request.deadline_s);
      }
      Filling filling = laying.Take(profile);
      filling.in_time = true;
      return filling;
    }
    below = level.gpus;
  }
  return {};
}

Filling FillEarly(const FillRequest& request, Profile& profile) {
  const int cap = request.max_gpus > 0 ? request.max_gpus : request.curve->peak_gpus();
  Laying laying(request, profile, &Curve::LegalAtMost);
  const bool ends = laying.Through(profile.Find(request.from_s), profile.size(), cap, kNever);
  Filling filling = laying.Take(profile);
  filling.in_time = ends && filling.end_s <= request.deadline_s;
  return filling;
}

}  // namespace rubato
