#include "rubato/roles/metrics_page.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/inspect_server.h"
#include "rubato/adapters/posix/params_server.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

JobSpec Job(const std::string& metrics) {
  JobSpec job;
  job.name = "ctr";
  job.params.metrics = metrics;
  return job;
}

TEST(MetricsPageTest, EveryServerHasItsPort) {
  EXPECT_EQ(MetricsAddress(Job(""), ServerId(0)), "");
  EXPECT_EQ(MetricsAddress(Job("127.0.0.1:9100"), ServerId(0)), "127.0.0.1:9100");
  EXPECT_EQ(MetricsAddress(Job("[::1]:9100"), ServerId(3)), "[::1]:9103");
}

// A job at a glance: every part of the workers' time, and a name that needs quoting.
TEST(MetricsPageTest, TellsHowAJobStands) {
  Snapshot snapshot;
  snapshot.state = JobState::kTraining;
  snapshot.steps = 12;
  snapshot.workers_lost = 3;
  snapshot.reports_unreadable = 5;
  snapshot.spent = {.useful = 8, .detect = 0.5, .redo = 1.5};
  std::string text = PrometheusText(snapshot, "a \"b\"");
  EXPECT_THAT(text, HasSubstr("rubato_job_state{job=\"a \\\"b\\\"\",state=\"training\"} 1\n"));
  text = PrometheusText(snapshot, "mnist");
  EXPECT_THAT(text,
              HasSubstr("# TYPE rubato_job_steps gauge\nrubato_job_steps{job=\"mnist\"} 12\n"));
  EXPECT_THAT(text, HasSubstr("rubato_job_workers_lost_total{job=\"mnist\"} 3\n"));
  EXPECT_THAT(text, HasSubstr("rubato_job_reports_unreadable_total{job=\"mnist\"} 5\n"));
  const auto seconds = [](const std::string& part) {
    return absl::StrCat("rubato_job_worker_seconds_total{job=\"mnist\",part=\"", part, "\"} ");
  };
  for (const auto& [part, spent] : {std::pair("useful", "8\n"), std::pair("detect", "0.5\n"),
                                    std::pair("redo", "1.5\n"), std::pair("wait", "0\n")}) {
    EXPECT_THAT(text, HasSubstr(seconds(part) + spent));
  }
  EXPECT_THAT(text, Not(HasSubstr("rubato_job_loss")));
  EXPECT_THAT(text, Not(HasSubstr("rubato_job_evaluation")));
  snapshot.loss_known = true;
  snapshot.loss = 0.25;
  snapshot.evaluations = {{.number = 1, .metrics = {{"accuracy", 0.75}}}};
  text = PrometheusText(snapshot, "mnist");
  EXPECT_THAT(text, HasSubstr("rubato_job_loss{job=\"mnist\"} 0.25\n"));
  EXPECT_THAT(text, HasSubstr("rubato_job_evaluation{job=\"mnist\",metric=\"accuracy\"} 0.75\n"));
}

// A server that has not been told its model yet answers too, over HTTP and over its own socket.
TEST(MetricsPageTest, AnswersOverHttpAndOverItsSocket) {
  const std::string root =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/metrics-", getpid());
  std::filesystem::create_directories(root);
  auto server = ParamsServer::Start({.address = "127.0.0.1:0",
                                     .directory = root + "/server-0",
                                     .checkpoints = root + "/checkpoints",
                                     .job = "ctr"});
  ASSERT_TRUE(server.ok());
  {
    const auto text = [&] { return PrometheusText((*server)->Inspect(), "ctr"); };
    MetricsPage metrics({.key = "metrics", .address = "127.0.0.1:0", .text = text});
    EXPECT_EQ(metrics.address(), "");
    metrics.KeepUp(absl::UnixEpoch());
    ASSERT_THAT(metrics.address(), HasSubstr("127.0.0.1:"));
    EXPECT_THAT(metrics.Answer({.method = "GET", .path = "/metrics"}).body,
                HasSubstr("rubato_params_partitions{job=\"ctr\",server=\"0\"} 1024\n"));
    EXPECT_EQ(metrics.Answer({.method = "GET", .path = "/"}).status, 404);
    // A second one finds the port taken, and training goes on.
    MetricsPage late({.key = "metrics", .address = metrics.address(), .text = text});
    late.KeepUp(absl::UnixEpoch());
    EXPECT_EQ(late.address(), "");
  }
  const auto inspection = InspectServer((*server)->address(), absl::Seconds(30));
  ASSERT_TRUE(inspection.ok()) << inspection.status();
  EXPECT_EQ(inspection->partitions, 1024);
  EXPECT_EQ(inspection->clients, 1);
  EXPECT_THAT(PrometheusText(*inspection, "ctr"),
              HasSubstr("rubato_params_partitions{job=\"ctr\",server=\"0\"} 1024\n"));
  (*server)->Stop();
  EXPECT_FALSE(InspectServer((*server)->address(), absl::Seconds(30)).ok());
  std::filesystem::remove_all(root);
}

}  // namespace
}  // namespace rubato
