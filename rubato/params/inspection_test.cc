#include "rubato/params/inspection.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>

#include "rubato/base/rng.h"
#include "rubato/params/key_counts.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

// Three ids that make up a few percent each are found among a million others, in their order.
TEST(HotIdsTest, FindsTheFrequentAmongMany) {
  Rng rng(4);
  std::vector<HotIds> threads(2);
  std::vector<uint64_t> ids;
  for (int request = 0; request < 400; ++request) {
    ids.clear();
    for (int i = 0; i < 999; ++i) {
      const double dice = rng.Uniform();
      ids.push_back(dice < 0.05 ? 7 : dice < 0.08 ? 8 : dice < 0.1 ? 9 : 1000 + rng.Below(1000000));
    }
    threads[static_cast<size_t>(request % 2)].Count(1, ids);
  }
  const auto hottest = HottestOf({{threads[0].All(), threads[1].All()}}, 3);
  ASSERT_EQ(hottest.size(), 3u);
  const double all = 400 * 999;
  for (size_t i = 0; i < 3; ++i) {
    EXPECT_EQ(hottest[i].table, 1u);
    EXPECT_EQ(hottest[i].id, 7 + i);
    const double expected = all * (i == 0 ? 0.05 : i == 1 ? 0.03 : 0.02);
    EXPECT_GT(static_cast<double>(hottest[i].count), expected * 0.7);
    EXPECT_LT(static_cast<double>(hottest[i].count), expected * 1.3);
  }
}

// Of two lanes, requests of any size: each partition gets about as many as came.
TEST(KeyCountsTest, CountsFollowTheIds) {
  Rng rng(5);
  std::vector<KeyCounts> lanes(2);
  std::vector<double> came(kPartitions);
  std::vector<uint64_t> ids;
  for (int request = 0; request < 4000; ++request) {
    ids.clear();
    for (uint64_t n = rng.Below(400); n > 0; --n) {
      // Every fourth key is of partition 3, every fourth of 900, the rest are anywhere.
      const uint64_t p = rng.Below(4) == 0 ? 3 : rng.Below(3) == 0 ? 900 : rng.Below(kPartitions);
      ids.push_back(IdOf(FirstPoint(static_cast<int64_t>(p)) + rng.Below(1000)));
      ++came[p];
    }
    lanes[static_cast<size_t>(request % 2)].Count(ids);
  }
  std::vector<int64_t> counted(kPartitions), later(kPartitions);
  for (KeyCounts& lane : lanes) lane.TakeInto(counted), lane.TakeInto(later);
  EXPECT_NEAR(static_cast<double>(counted[3]), came[3], 0.05 * came[3]);
  EXPECT_NEAR(static_cast<double>(counted[900]), came[900], 0.05 * came[900]);
  const double all = std::accumulate(came.begin(), came.end(), 0.0);
  EXPECT_NEAR(static_cast<double>(std::accumulate(counted.begin(), counted.end(), int64_t{0})), all,
              0.01 * all);
  EXPECT_EQ(later, std::vector<int64_t>(kPartitions));
}

ServerInspection Sample() {
  ServerInspection sample;
  sample.server = 2;
  sample.tables = {{.name = "de\"ep", .dim = 8, .optimizer = "adagrad", .rows = 10, .counted = 3},
                   {.name = "wide", .dim = 1, .optimizer = "ftrl", .admitted = 12, .evicted = 2}};
  sample.pulls = 5;
  sample.staleness_sum = 9;
  sample.stale_pushes = 4;
  sample.tables[0].ttl_steps = 500;
  sample.tables[1].admit_probability = 0.5;
  sample.refused_stale = 6;
  sample.seconds = 1.5;
  sample.checkpoint = 3;
  sample.checkpoint_hold_us = 2500;
  sample.checkpoint_wait_us = 3500;
  sample.hottest = {{1, 42, 100}};
  return sample;
}

TEST(InspectionTest, ComesBackFromBytes) {
  const std::string bytes = EncodeInspection(Sample());
  const auto back = DecodeInspection(bytes);
  ASSERT_TRUE(back.ok());
  EXPECT_EQ(EncodeInspection(*back), bytes);
  EXPECT_EQ(back->tables[1].optimizer, "ftrl");
  EXPECT_EQ(back->tables[0].counted, 3);
  EXPECT_EQ(back->refused_stale, 6);
  EXPECT_EQ(back->checkpoint, 3);
  EXPECT_EQ(back->checkpoint_hold_us, 2500);
  EXPECT_EQ(back->checkpoint_wait_us, 3500);
  EXPECT_EQ(back->hottest, Sample().hottest);
  EXPECT_EQ(back->tables[0].ttl_steps, 500);
  EXPECT_EQ(back->tables[1].admit_probability, 0.5);
  // What builds before said: without the rules of two tables, and without the wait.
  const size_t earlier = bytes.size() - 2 * 5 * sizeof(int64_t);
  for (size_t length = 0; length < bytes.size(); ++length) {
    const auto part = DecodeInspection(absl::string_view(bytes).substr(0, length));
    EXPECT_EQ(part.ok(), length == earlier || length == earlier - sizeof(int64_t)) << length;
    EXPECT_TRUE(!part.ok() || part->tables[1].admit_count == -1) << length;
  }
  std::string other = bytes;
  other[0] = 99;
  EXPECT_THAT(std::string(DecodeInspection(other).status().message()), HasSubstr("protocol 99"));
}

TEST(InspectionTest, PrometheusSeesEveryTable) {
  const std::string text = PrometheusText(Sample(), "ctr");
  for (const char* line :
       {"# TYPE rubato_params_rows gauge",
        "rubato_params_rows{job=\"ctr\",server=\"2\",table=\"de\\\"ep\"} 10",
        "rubato_params_rows_admitted_total{job=\"ctr\",server=\"2\",table=\"wide\"} 12",
        "rubato_params_rows_refused_total{job=\"ctr\",server=\"2\",table=\"wide\"} 0",
        "rubato_params_rows_evicted_total{job=\"ctr\",server=\"2\",table=\"wide\"} 2",
        "rubato_params_pulls_total{job=\"ctr\",server=\"2\"} 5",
        "rubato_params_stale_total{job=\"ctr\",server=\"2\"} 6",
        "rubato_params_staleness_steps_sum{job=\"ctr\",server=\"2\"} 9",
        "rubato_params_staleness_steps_count{job=\"ctr\",server=\"2\"} 4",
        "rubato_params_checkpoint_hold_seconds_max{job=\"ctr\",server=\"2\"} 0.0025",
        "rubato_params_checkpoint_wait_seconds_max{job=\"ctr\",server=\"2\"} 0.0035",
        "rubato_params_uptime_seconds{job=\"ctr\",server=\"2\"} 1.5"}) {
    EXPECT_THAT(text, HasSubstr(absl::StrCat(line, "\n")));
  }
}

}  // namespace
}  // namespace rubato
