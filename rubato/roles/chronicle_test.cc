#include "rubato/roles/chronicle.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <string>
#include <variant>

#include "absl/strings/str_cat.h"

namespace rubato {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

GroupMember M(int id) {
  return {MemberId(id), absl::StrCat("10.0.0.", id, ":4000;node;", 100 + id, ";9")};
}

GroupView ViewOf(uint64_t number, std::vector<int> ids, int holders) {
  GroupView view{.number = number, .holders = holders, .step = 9};
  for (const int id : ids) view.members.push_back(M(id));
  return view;
}

// Worker 1 of a group of four, all of whom hold the model.
class ChronicleTest : public testing::Test {
 protected:
  void SetUp() override {
    chronicle_.Enter(ViewOf(5, {1, 2, 3, 4}, 4), {}, {.steps = 7}, now_);
    chronicle_.TakeEvents();
  }
  Departure Gone(int id, LossReason reason, int noticed_by = 1) {
    return {M(id), {MemberId(id), MemberId(noticed_by), reason}, now_ - absl::Milliseconds(300)};
  }
  void Enter(uint64_t number, std::vector<int> ids, std::vector<Departure> gone,
             bool over = false) {
    chronicle_.Enter(ViewOf(number, ids, static_cast<int>(ids.size())), gone,
                     {.steps = 8, .over = over, .noticed = now_}, now_);
  }
  void Resume(uint64_t view) {
    chronicle_.Resume({.view = view,
                       .noticed_us = absl::ToUnixMicros(now_),
                       .agree_us = 1000,
                       .reconnect_us = 2000,
                       .redo_us = 4000},
                      now_);
  }
  void Part(std::vector<Departure> out) {
    chronicle_.Part({.step = 7, .out = std::move(out)}, {.steps = 8, .noticed = now_}, now_);
  }
  // Those of one kind since the last call, fields by name.
  std::vector<std::map<std::string, std::string>> Told(const std::string& kind) {
    std::vector<std::map<std::string, std::string>> told;
    for (const JobEvent& event : chronicle_.TakeEvents()) {
      if (event.kind != kind) continue;
      told.push_back({{"cause", event.cause}});
      for (const auto& [name, value] : event.fields) {
        told.back()[name] =
            std::holds_alternative<std::string>(value) ? std::get<std::string>(value)
            : std::holds_alternative<double>(value)    ? absl::StrCat(std::get<double>(value))
                                                       : absl::StrCat(std::get<int64_t>(value));
      }
    }
    return told;
  }

  absl::Time now_ = absl::FromUnixSeconds(1000);
  Chronicle chronicle_{"10.0.0.1:4000"};
};

TEST_F(ChronicleTest, AFailureIsOneRecordOnceItsPhasesAreKnown) {
  Enter(6, {1, 2, 3}, {Gone(4, LossReason::kProcess, 2)});
  EXPECT_THAT(Told("failure"), IsEmpty()) << "nobody knows yet what it cost";
  Resume(6);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 1u);
  const std::map<std::string, std::string> expected = {
      {"worker", "10.0.0.4:4000"},
      {"where", "10.0.0.4:4000"},
      {"pid", "104"},
      {"step", "8"},
      {"noticed_by", "10.0.0.2:4000"},
      {"noticed_how", "process"},
      {"view", "6"},
      {"detect_ms", "300"},
      {"agree_ms", "1"},
      {"reconnect_ms", "2"},
      {"redo_ms", "4"},
      {"cause", "10.0.0.4:4000: its process ended"}};
  EXPECT_EQ(told[0], expected);
  Resume(7);
  chronicle_.End(now_);
  EXPECT_THAT(Told("failure"), IsEmpty()) << "it is told once";
}

TEST_F(ChronicleTest, EachReasonHasItsWords) {
  const std::pair<LossReason, const char*> cases[] = {
      {LossReason::kRefused, "10.0.0.4:4000: nobody listens there any more"},
      {LossReason::kSocket, "10.0.0.4:4000: its connection closed, and it answers no more"},
      {LossReason::kLease, "10.0.0.4:4000: silent for 300ms"}};
  for (const auto& [reason, cause] : cases) {
    Chronicle fresh("10.0.0.1:4000");
    fresh.Enter(ViewOf(5, {1, 4}, 2), {}, {}, now_);
    fresh.Enter(ViewOf(6, {1}, 1), {Gone(4, reason)}, {.noticed = now_}, now_);
    fresh.End(now_);
    EXPECT_EQ(fresh.TakeEvents().back().cause, cause);
  }
}

// Who is dropped with a dead one, though it lives, is no failure of its own.
TEST_F(ChronicleTest, WhoFallsOutWithADeadOneIsCollateral) {
  Enter(6, {1, 2}, {Gone(3, LossReason::kLink, 2), Gone(4, LossReason::kProcess)});
  Resume(6);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 2u);
  EXPECT_EQ(told[0]["worker"], "10.0.0.3:4000");
  EXPECT_EQ(told[0]["collateral_of"], "10.0.0.4:4000: its process ended");
  EXPECT_EQ(told[0]["cause"],
            "10.0.0.3:4000: out of the group (link), though its process lives: it joins again");
  EXPECT_FALSE(told[1].contains("collateral_of"));
}

// One that was not at the others' step stays, and copies the model: no failure, and no new life.
TEST_F(ChronicleTest, WhoIsNotLevelCopiesWithoutAFailure) {
  const GroupView next = ViewOf(6, {2, 3, 1}, 2);
  chronicle_.Enter(next, {Gone(4, LossReason::kProcess)}, {.steps = 8, .noticed = now_}, now_);
  auto copies = Told("worker_copies");
  ASSERT_EQ(copies.size(), 1u);
  EXPECT_EQ(copies[0]["worker"], "10.0.0.1:4000");
  EXPECT_EQ(copies[0]["view"], "6");
  EXPECT_EQ(copies[0]["collateral_of"], "10.0.0.4:4000: its process ended");
  EXPECT_EQ(copies[0]["cause"], kNotLevelCause);
  Resume(6);
  EXPECT_EQ(Told("failure").size(), 1u);
  Enter(7, {2, 3, 1}, {});
  EXPECT_EQ(Told("worker_holds").size(), 1u);
}

// If another dies before the next step, the change to the later view brought that step for both.
TEST_F(ChronicleTest, ASecondDeathBeforeTheNextStep) {
  Enter(6, {1, 2, 3}, {Gone(4, LossReason::kProcess)});
  Enter(7, {1, 2}, {Gone(3, LossReason::kProcess)});
  Resume(7);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 2u);
  for (auto& one : told) EXPECT_EQ(one["redo_ms"], "4") << one["worker"];
}

// Where too few are left to agree on anything the one who waits knows why, and says so if it ends
// there; who was only out of reach and comes back was no failure.
TEST_F(ChronicleTest, WhomItMissesIsToldIfNothingGoesOn) {
  const std::vector<Departure> missed = {Gone(3, LossReason::kLease),
                                         Gone(4, LossReason::kProcess)};
  for (int i = 0; i < 2; ++i) {
    EXPECT_EQ(chronicle_.Miss(missed, {.steps = 8, .noticed = now_}, now_),
              "10.0.0.3:4000: silent for 300ms; 10.0.0.4:4000: its process ended");
  }
  EXPECT_THAT(Told("failure"), IsEmpty());
  Enter(6, {1, 2, 3}, {Gone(4, LossReason::kProcess)});
  chronicle_.End(now_);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 1u) << "worker 3 is back";
  EXPECT_EQ(told[0]["worker"], "10.0.0.4:4000");
  EXPECT_FALSE(told[0].contains("redo_ms"));
}

// Two sides of a cut miss each other, and a worker cannot know on which it is: who was only silent
// is lost to nobody whom no view has told so.
TEST_F(ChronicleTest, WhoIsOnlySilentIsNotLostWithoutAView) {
  EXPECT_EQ(chronicle_.Miss({Gone(3, LossReason::kLease)}, {.steps = 8, .noticed = now_}, now_),
            "10.0.0.3:4000: silent for 300ms");
  chronicle_.End(now_);
  EXPECT_THAT(chronicle_.TakeEvents(), IsEmpty());
  Snapshot snapshot;
  chronicle_.Describe(&snapshot);
  EXPECT_EQ(snapshot.workers_lost, 0);
}

// A death that no view came after is counted as any other.
TEST_F(ChronicleTest, WhoIsMissedToTheEndIsLost) {
  (void)chronicle_.Miss({Gone(4, LossReason::kProcess)}, {.steps = 8, .noticed = now_}, now_);
  chronicle_.End(now_);
  const std::vector<JobEvent> events = chronicle_.TakeEvents();
  ASSERT_EQ(events.size(), 2u);
  EXPECT_EQ(events[0].kind, "worker_lost");
  EXPECT_EQ(events[1].kind, "failure");
  Snapshot snapshot;
  chronicle_.Describe(&snapshot);
  EXPECT_EQ(snapshot.workers_lost, 1);
}

// A worker that falls out again has nothing new to say of a death that it has told.
TEST_F(ChronicleTest, ADeathIsToldOnceHoweverOftenOneFallsOut) {
  for (int i = 0; i < 2; ++i) {
    Part({Gone(1, LossReason::kLink, 2), Gone(4, LossReason::kProcess, 2)});
  }
  EXPECT_EQ(Told("failure").size(), 1u);
  Snapshot snapshot;
  chronicle_.Describe(&snapshot);
  EXPECT_EQ(snapshot.workers_lost, 1);
}

// Worker 1 did not answer in time when 4 died, and the others say so: it tells of that death once,
// and of itself as collateral. What it missed until it was back is not its to tell.
TEST_F(ChronicleTest, WhoIsLeftOutTellsWhatTheOthersSay) {
  Part({Gone(1, LossReason::kLink, 2), Gone(3, LossReason::kLeft, 2),
        Gone(4, LossReason::kProcess, 2)});
  const std::vector<JobEvent> events = chronicle_.TakeEvents();
  ASSERT_EQ(events.size(), 3u);
  EXPECT_EQ(events[0].kind, "worker_lost");
  EXPECT_EQ(events[1].kind, "failure");
  EXPECT_EQ(events[1].cause, "10.0.0.4:4000: its process ended");
  EXPECT_EQ(std::get<int64_t>(events[1].fields[3].second), 7) << "the step they went on from";
  EXPECT_EQ(events[2].kind, "worker_evicted");
  EXPECT_EQ(events[2].fields.back().first, "collateral_of");
  EXPECT_EQ(std::get<std::string>(events[2].fields.back().second), events[1].cause);

  GroupView back = ViewOf(8, {2, 3, 9}, 2);  // 9 is its new life.
  back.members[2].address = M(1).address;
  chronicle_.Enter(back, {}, {.noticed = now_}, now_);
  chronicle_.End(now_);
  EXPECT_THAT(Told("failure"), IsEmpty());
}

// One that was silent is the first cause itself, whoever else fell out with it.
TEST_F(ChronicleTest, WhoWasSilentIsNobodysCollateral) {
  Part({Gone(1, LossReason::kLease, 2), Gone(3, LossReason::kLease, 2),
        Gone(4, LossReason::kProcess, 2)});
  auto events = chronicle_.TakeEvents();
  ASSERT_EQ(events.size(), 3u) << "of 3's silence it knows nothing, being out of reach itself";
  EXPECT_EQ(events[1].cause, "10.0.0.4:4000: its process ended");
  EXPECT_THAT(events[2].cause, testing::StartsWith("it was silent for too long"));
  EXPECT_EQ(events[2].fields, (Chronicle::Fields{{"worker", "10.0.0.1:4000"},
                                                 {"step", int64_t{7}},
                                                 {"noticed_by", "10.0.0.2:4000"},
                                                 {"noticed_how", "lease"}}));
}

// Nobody has told why: then nothing is said of anyone.
TEST_F(ChronicleTest, WhatIsNotToldIsNotGuessed) {
  (void)chronicle_.Miss({Gone(4, LossReason::kProcess)}, {.steps = 8, .noticed = now_}, now_);
  chronicle_.Part({}, {.steps = 8, .noticed = now_}, now_);
  const std::vector<JobEvent> events = chronicle_.TakeEvents();
  ASSERT_EQ(events.size(), 1u);
  EXPECT_EQ(events[0].kind, "worker_evicted");
  EXPECT_EQ(events[0].fields, (Chronicle::Fields{{"worker", "10.0.0.1:4000"}}));
  EXPECT_THAT(events[0].cause, testing::StartsWith("nobody has told this worker why"));
}

// Whom a worker did not hear while it was cut off, and does not meet again, was no loss to it.
TEST_F(ChronicleTest, WhoWasOutOfReachIsNotLost) {
  (void)chronicle_.Miss({Gone(3, LossReason::kLease), Gone(4, LossReason::kProcess)},
                        {.steps = 8, .noticed = now_}, now_);
  Part({Gone(1, LossReason::kLease, 2)});
  Enter(9, {1, 2}, {});
  chronicle_.End(now_);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["cause"], "10.0.0.4:4000: its process ended");
}

// One that still copied the model is labelled so, and one that no view had yet.
TEST_F(ChronicleTest, WhoHadNoModelYetIsLabelled) {
  chronicle_.Enter(ViewOf(6, {1, 2, 3, 4, 5}, 4), {}, {.steps = 8}, now_);
  Enter(7, {1, 2, 3, 4}, {Gone(5, LossReason::kProcess)});
  Resume(7);
  auto told = Told("failure");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["state"], "copying");
  EXPECT_EQ(told[0]["redo_ms"], "4");
  chronicle_.LoseNewcomer(Gone(6, LossReason::kLease), {.steps = 9, .noticed = now_}, now_);
  told = Told("failure");
  ASSERT_EQ(told.size(), 1u);
  EXPECT_EQ(told[0]["state"], "joining");
  EXPECT_EQ(told[0]["cause"], "10.0.0.6:4000: silent for 300ms");
  EXPECT_FALSE(told[0].contains("redo_ms")) << "nobody waited for it";
  Snapshot snapshot;
  chronicle_.Describe(&snapshot);
  EXPECT_EQ(snapshot.workers_lost, 2);
}

TEST_F(ChronicleTest, WhoGoesAsAgreedIsNoFailure) {
  Enter(6, {1, 2, 3}, {Gone(4, LossReason::kLeft, 2)});
  EXPECT_EQ(Told("worker_left")[0]["cause"], "it asked to go");
  Enter(7, {1, 2}, {Gone(3, LossReason::kHearsay)}, /*over=*/true);
  EXPECT_EQ(Told("worker_left")[0]["cause"], "training is over");
  chronicle_.End(now_);
  EXPECT_THAT(Told("failure"), IsEmpty());
  Snapshot snapshot;
  chronicle_.Describe(&snapshot);
  EXPECT_EQ(snapshot.workers_lost, 0);
  EXPECT_EQ(snapshot.workers_max, 4);
  EXPECT_EQ(snapshot.workers_alive, 2);
}

// A newcomer tells of itself, and later of whoever comes after it.
TEST(ChronicleOfNewcomerTest, WhoComesIsNamed) {
  const absl::Time now = absl::FromUnixSeconds(1000);
  Chronicle chronicle("10.0.0.2:4000");
  const auto kinds = [&] {
    std::vector<std::string> kinds;
    for (const JobEvent& event : chronicle.TakeEvents()) kinds.push_back(event.kind);
    return kinds;
  };
  EXPECT_FALSE(chronicle.in_group());
  chronicle.Enter(ViewOf(2, {1, 2}, 1), {}, {}, now);
  EXPECT_THAT(kinds(), ElementsAre("view", "worker_joined"));
  chronicle.Enter(ViewOf(3, {1, 2}, 2), {}, {}, now);
  EXPECT_THAT(kinds(), ElementsAre("view", "worker_holds"));
  chronicle.Enter(ViewOf(4, {1, 2, 3}, 2), {}, {}, now);
  EXPECT_THAT(kinds(), ElementsAre("view", "worker_joined"));
}

}  // namespace
}  // namespace rubato
