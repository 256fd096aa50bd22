#include <gtest/gtest.h>

#include <utility>
#include <vector>

#include "rubato/membership/views.h"

namespace rubato {
namespace {

// A process begins a new life at its old address. What is still under way to the one before, that
// it is out, is not said of this one, which asks to be let in.
TEST(EvictedTest, TheEndOfAnEarlierLifeIsNotThatOfALaterOne) {
  const Loss earlier{MemberId(8), MemberId(1), LossReason::kLeft};
  const Loss own{MemberId(9), MemberId(1), LossReason::kLease};
  using Gone = std::vector<Loss>;
  for (const auto& [gone, fences] :
       {std::pair(Gone{earlier}, false), {Gone{earlier, own}, true}, {Gone{}, true}}) {
    const GroupMember self{MemberId(9), "m9"}, other{MemberId(1), "m1"};
    Swim swim(self, SwimOptions(), Rng(1));
    Views views(swim, {}, Rng(2));
    views.Receive({.kind = ViewMessage::Kind::kEvicted, .from = other, .gone = gone},
                  absl::UnixEpoch());
    EXPECT_EQ(views.fenced(), fences) << gone.size();
  }
}

}  // namespace
}  // namespace rubato
