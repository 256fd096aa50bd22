// Curves that tests speak of by name.
#ifndef RUBATO_SCHEDULE_FAKE_CURVES_H_
#define RUBATO_SCHEDULE_FAKE_CURVES_H_

#include "rubato/cluster/curve.h"

namespace rubato {

// Of the ElasticFlow paper's worked example.
inline const Curve& PaperCurve() {
  static const Curve curve({{1, 1}, {2, 1.5}, {4, 2}});
  return curve;
}
// The same, slower again past its peak.
inline const Curve& Falling() {
  static const Curve curve({{1, 1}, {2, 1.5}, {4, 2}, {8, 1.8}});
  return curve;
}
inline const Curve& Concave() {
  static const Curve curve({{1, 1}, {2, 1.7}, {4, 2.5}, {8, 3}});
  return curve;
}
inline const Curve& Doubling() {
  static const Curve curve({{1, 1}, {2, 2}, {4, 4}, {8, 8}});
  return curve;
}
inline const Curve& Flat() {  // Hardly gains from more than one.
  static const Curve curve({{1, 1}, {2, 1.1}, {4, 1.2}, {8, 1.25}});
  return curve;
}

}  // namespace rubato

#endif  // RUBATO_SCHEDULE_FAKE_CURVES_H_
