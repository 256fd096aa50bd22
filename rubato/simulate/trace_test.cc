#include "rubato/simulate/trace.h"

#include "gmock/gmock.h"
#include "gtest/gtest.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

TEST(TraceTest, BothSpellingsMeanTheSame) {
  const auto first = ParseTrace(
      "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,duration\n"
      "a,10,500,bert,90,64,2,40\n",
      "t.csv");
  const auto second = ParseTrace(
      "job_id,submission_time,num_iteration,model_name,deadline,batch_size,num_gpu,duration\n"
      "a,10,500,bert,90,64,2,40\n",
      "t.csv");
  ASSERT_TRUE(first.ok()) << first.status();
  ASSERT_TRUE(second.ok()) << second.status();
  EXPECT_EQ(FormatTrace(*first), FormatTrace(*second));
  EXPECT_EQ(first->jobs[0].deadline_s, 90);
  EXPECT_EQ(first->jobs[0].deadline, DeadlineKind::kHard);
  EXPECT_EQ(first->jobs[0].iterations, 500);
}

TEST(TraceTest, BestEffortSoftAndMissingDeadlines) {
  const auto trace = ParseTrace(
      "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,best_effort,soft\n"
      "late,30,1,m,40,1,1,0,1\n"
      "free,10,1,m,5,1,1,1,\n"
      "none,20,1,m,nan,1,1,0,0\n"
      "zero,21,1,m,0,1,1,,\n"
      "point,22,1,m,0.0,1,1,,\n",
      "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->jobs[0].name, "free");  // By submission; its past deadline is ignored.
  EXPECT_EQ(trace->jobs[0].deadline_s, kNever);
  EXPECT_EQ(trace->jobs[1].deadline, DeadlineKind::kNone);
  EXPECT_EQ(trace->jobs[2].deadline, DeadlineKind::kNone);
  EXPECT_EQ(trace->jobs[3].deadline, DeadlineKind::kNone);
  EXPECT_EQ(trace->jobs[4].deadline, DeadlineKind::kSoft);
}

TEST(TraceTest, SaysWhereATraceIsWrong) {
  const std::string header = "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu\n";
  struct Case {
    std::string text, message;
  };
  for (const Case& c : {
           Case{"", "t.csv:1: the file is empty"},
           Case{header, "the trace has no jobs"},
           Case{"job_id,iteration\n", "t.csv:1: no column \"submit_time\""},
           Case{header + "a,0,1,m,9,1\n", "t.csv:2: 6 fields where the header has 7"},
           Case{header + "a,0,1,m,9,1,1\n\nb,soon,1,m,9,1,1\n", "t.csv:4: submit_time is \"soon\""},
           Case{header + "a,-1,1,m,9,1,1\n",
                "t.csv:2: submit_time is -1; it must be from 0 to 1e+10"},
           Case{header + "a,0,0,m,9,1,1\n", "t.csv:2: iterations are 0"},
           Case{header + "a,0,inf,m,9,1,1\n", "t.csv:2: iteration is \"inf\""},
           Case{header + "a,0,1,m,9,0,1\n", "t.csv:2: batch_size is 0"},
           Case{header + "a,0,1,m,9,1,1.5\n", "t.csv:2: num_gpu is 1.5"},
           Case{header + "a,50,1,m,9,1,1\n", "t.csv:2: the deadline, 9, lies before"},
           Case{header + "a,0,1,m,9,1,1\na,0,1,m,9,1,1\n", "t.csv:3: job_id a appears twice"},
           Case{header + ",0,1,m,9,1,1\n", "t.csv:2: job_id is empty"},
           Case{header + "a,nan,1,m,9,1,1\n", "t.csv:2: submit_time is \"nan\""},
           Case{header + "a,0,1,m,-9,1,1\n", "t.csv:2: ddl is -9; it must be from 0"},
           Case{header + "a,0,1,m,never,1,1\n", "t.csv:2: ddl is \"never\""},
           Case{header + "a,0,1,m,9,1,1,1\n", "t.csv:2: 8 fields where the header has 7"},
           Case{header + "a,0,1,m,9,1,2000000\n", "t.csv:2: num_gpu is 2000000"},
           Case{header + "a,0,1,\"m,m\",9,1\n", "t.csv:2: 6 fields"},
           Case{header + "a,0,1,m,9,1,1\n\"b,0,1,m,9,1,1\n", "t.csv:3: a quote is opened here"},
           Case{header + "\"a\nb\",0,1,m,9,1,1\nc,x,1,m,9,1,1\n", "t.csv:4: submit_time is \"x\""},
           Case{header + "a,1e200,1,m,,1,1\n", "t.csv:2: submit_time is 1e+200; it must be from 0"},
           Case{header + "a,0,1e308,m,,1,1\n", "t.csv:2: iteration is 1e+308; it must be from 0"},
           Case{header + "a,0,1,m,1e11,1,1\n", "t.csv:2: ddl is 1e+11; it must be from 0 to 1e+10"},
           Case{"job_id,submit_time,iteration,model_name,batch_size,num_gpu,submission_time\n",
                "t.csv:1: the columns \"submit_time\" and \"submission_time\" say the same"},
           Case{"job_id,submit_time,num_iteration,iteration,model_name,batch_size,num_gpu\n",
                "t.csv:1: the columns \"iteration\" and \"num_iteration\" say the same"},
           Case{"job_id,submit_time,iteration,model_name,batch_size,num_gpu,ddl,deadline\n",
                "t.csv:1: the columns \"ddl\" and \"deadline\" say the same"},
           Case{"job_id,job_id\n", "t.csv:1: the column \"job_id\" appears twice"},
       }) {
    const auto trace = ParseTrace(c.text, "t.csv");
    ASSERT_FALSE(trace.ok()) << c.text;
    EXPECT_THAT(trace.status().message(), HasSubstr(c.message));
  }
}

TEST(TraceTest, OptionalColumnsAreCheckedToo) {
  const std::string header =
      "job_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu,best_effort,soft,priority,"
      "min_gpu,max_gpu,cpu_per_gpu,mem_per_gpu\n";
  struct Case {
    std::string row, message;
  };
  for (const Case& c : {
           Case{"a,0,1,m,9,1,1,2,0,0,0,0,,", "t.csv:2: best_effort is 2"},
           Case{"a,0,1,m,9,1,1,0,yes,0,0,0,,", "t.csv:2: soft is \"yes\""},
           Case{"a,0,1,m,9,1,1,0,0,5000,0,0,,", "t.csv:2: priority is 5000"},
           Case{"a,0,1,m,9,1,1,0,0,0,-1,0,,", "t.csv:2: min_gpu is -1"},
           Case{"a,0,1,m,9,1,1,0,0,0,8,4,,", "t.csv:2: max_gpu is below min_gpu"},
           Case{"a,0,1,m,9,1,1,0,0,0,0,0,-1,0", "t.csv:2: cpu_per_gpu is -1"},
           Case{"a,0,1,m,9,1,1,0,0,0,0,0,0,lots", "t.csv:2: mem_per_gpu is \"lots\""},
       }) {
    const auto trace = ParseTrace(header + c.row, "t.csv");
    ASSERT_FALSE(trace.ok()) << c.row;
    EXPECT_THAT(trace.status().message(), HasSubstr(c.message));
  }
}

TEST(TraceTest, SpreadsheetsAreForgivenTheirLineEnds) {
  const auto trace = ParseTrace(
      "\xef\xbb\xbfjob_id,submit_time,iteration,model_name,ddl,batch_size,num_gpu\r\n"
      "a, 0 ,1,m,,1,1\r\n\r\n",
      "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->jobs[0].model, "m");
  EXPECT_EQ(trace->jobs[0].deadline, DeadlineKind::kNone);
}

// As spreadsheets write them: quotes around what holds a comma, doubled where they are meant.
TEST(TraceTest, FieldsMayStandInQuotes) {
  const auto trace = ParseTrace(
      "\"job_id\",submit_time,iteration,model_name,ddl,batch_size,num_gpu\n"
      "\"a,b\",0,\"12\",\"say \"\"m\"\"\",,1,1\n",
      "t.csv");
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->jobs[0].name, "a,b");
  EXPECT_EQ(trace->jobs[0].iterations, 12);
  EXPECT_EQ(trace->jobs[0].model, "say \"m\"");
}

TEST(TraceTest, WrittenTracesReadBack) {
  Trace trace;
  trace.jobs.push_back({.name = "x",
                        .submit_s = 1.5,
                        .iterations = 12345678,
                        .model = "bert",
                        .batch_size = 64,
                        .deadline_s = 99,
                        .deadline = DeadlineKind::kSoft,
                        .asked_gpus = 4,
                        .duration_s = 7,
                        .priority = 2});
  trace.jobs.push_back(
      {.name = "y,\n\"z\"", .submit_s = 2, .iterations = 1, .model = "m", .batch_size = 1});
  const std::string text = FormatTrace(trace);
  const auto again = ParseTrace(text, "t.csv");
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(FormatTrace(*again), text);
  EXPECT_EQ(again->jobs[1].name, trace.jobs[1].name);
  trace.jobs[1].floor_gpus = 2;
  trace.jobs[1].cpus_per_gpu = 1.5;
  EXPECT_EQ(ParseTrace(FormatTrace(trace), "t.csv")->jobs[1].floor_gpus, 2);
  EXPECT_EQ(ParseTrace(FormatTrace(trace), "t.csv")->jobs[1].cpus_per_gpu, 1.5);
}

}  // namespace
}  // namespace rubato
