#include "rubato/roles/server_metrics.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/inspect_server.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;

JobSpec Job(const std::string& metrics) {
  JobSpec job;
  job.name = "ctr";
  job.params.metrics = metrics;
  return job;
}

TEST(ServerMetricsTest, EveryServerHasItsPort) {
  EXPECT_EQ(MetricsAddress(Job(""), ServerId(0)), "");
  EXPECT_EQ(MetricsAddress(Job("127.0.0.1:9100"), ServerId(0)), "127.0.0.1:9100");
  EXPECT_EQ(MetricsAddress(Job("[::1]:9100"), ServerId(3)), "[::1]:9103");
}

// A server that has not been told its model yet answers too, over HTTP and over its own socket.
TEST(ServerMetricsTest, AnswersOverHttpAndOverItsSocket) {
  const std::string root =
      absl::StrCat(std::filesystem::temp_directory_path().string(), "/metrics-", getpid());
  std::filesystem::create_directories(root);
  auto server = ParamsServer::Start({.address = "127.0.0.1:0",
                                     .directory = root + "/server-0",
                                     .checkpoints = root + "/checkpoints",
                                     .job = "ctr"});
  ASSERT_TRUE(server.ok());
  {
    ServerMetrics metrics(Job("127.0.0.1:0"), ServerId(0), **server);
    EXPECT_EQ(metrics.address(), "");
    metrics.KeepUp(absl::UnixEpoch());
    ASSERT_THAT(metrics.address(), HasSubstr("127.0.0.1:"));
    EXPECT_THAT(metrics.Answer({.method = "GET", .path = "/metrics"}).body,
                HasSubstr("rubato_params_partitions{job=\"ctr\",server=\"0\"} 1024\n"));
    EXPECT_EQ(metrics.Answer({.method = "GET", .path = "/"}).status, 404);
    // A second one finds the port taken, and training goes on.
    ServerMetrics late(Job(metrics.address()), ServerId(0), **server);
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
