#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "rubato/adapters/files/files.h"
#include "rubato/adapters/files/testing.h"
#include "rubato/base/bytes.h"
#include "rubato/roles/job_directory.h"
#include "rubato/roles/run_directory.h"
#include "rubato/roles/tensorboard.h"

namespace rubato {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

class JobDirectoryTest : public testing::Test {
 protected:
  TestFolder scratch_;
};

TEST_F(JobDirectoryTest, ASecondJobIsNotPutOnTop) {
  const std::string path = scratch_.path() + "/job";
  absl::StatusOr<JobDirectory> made = JobDirectory::Create(path);
  ASSERT_TRUE(made.ok()) << made.status();
  ASSERT_TRUE(WriteFileAtomically(made->job_file(), "name: a\n").ok());
  EXPECT_TRUE(absl::IsAlreadyExists(JobDirectory::Create(path).status()));
  EXPECT_TRUE(JobDirectory::Open(path).ok());
  EXPECT_TRUE(absl::IsNotFound(JobDirectory::Open(scratch_.path() + "/nothing").status()));
}

TEST_F(JobDirectoryTest, NobodysFilesAreTakenForAJob) {
  ASSERT_TRUE(WriteFileAtomically(scratch_.path() + "/thesis.txt", "years of work\n").ok());
  const absl::Status status = JobDirectory::Create(scratch_.path()).status();
  EXPECT_TRUE(absl::IsAlreadyExists(status));
  EXPECT_THAT(std::string(status.message()), HasSubstr("not empty"));
  EXPECT_TRUE(
      absl::IsAlreadyExists(JobDirectory::Create(scratch_.path() + "/thesis.txt").status()));
}

TEST_F(JobDirectoryTest, OneSupervisorAtATime) {
  const JobDirectory directory = *JobDirectory::Create(scratch_.path() + "/job");
  absl::StatusOr<std::shared_ptr<void>> first = directory.Lock();
  ASSERT_TRUE(first.ok());
  const absl::Status second = directory.Lock().status();
  EXPECT_TRUE(absl::IsFailedPrecondition(second));
  EXPECT_THAT(std::string(second.message()), HasSubstr(absl::StrCat(getpid())));
  first->reset();
  EXPECT_TRUE(directory.Lock().ok());
}

TEST_F(JobDirectoryTest, ProcessesTellWhereTheMasterIs) {
  const JobDirectory directory = *JobDirectory::Create(scratch_.path() + "/job");
  absl::StatusOr<std::shared_ptr<void>> lock = directory.Lock();
  ASSERT_TRUE(lock.ok());
  EXPECT_TRUE(absl::IsUnavailable(directory.MasterAddress().status()));
  const std::string text = JobDirectory::ProcessesText(
      {{.role = Role::kWorker, .id = 3, .pid = 17, .state = "running"}}, "unix:/m");
  ASSERT_TRUE(directory.WriteProcesses(text).ok());
  EXPECT_EQ(*directory.MasterAddress(), "unix:/m");
  const auto document =
      nlohmann::json::parse(*ReadWholeFile(directory.processes_path()))["processes"];
  EXPECT_EQ(document[0]["role"], "worker");
  EXPECT_EQ(document[0]["pid"], 17);
  // A supervisor that was killed leaves the file; only its lock tells that it is gone.
  lock->reset();
  EXPECT_THAT(std::string(directory.MasterAddress().status().message()),
              HasSubstr("rubato train --resume"));
}

TEST(RunDirectoryTest, WhatAKilledRunLeftIsSweptAway) {
  const TestFolder place;
  ASSERT_EQ(setenv("TMPDIR", place.path().c_str(), 1), 0);
  const std::string left = place.path() + "/rubato.killed";
  ASSERT_TRUE(MakeDirectories(left).ok());
  ASSERT_TRUE(WriteFileAtomically(left + "/lock", "").ok());
  auto first = RunDirectory::Make();
  ASSERT_TRUE(first.ok()) << first.status();
  EXPECT_FALSE(PathExists(left));
  auto second = RunDirectory::Make();  // The first still runs.
  EXPECT_TRUE(PathExists((*first)->path()));
  const std::string path = (*first)->path();
  first->reset();
  EXPECT_FALSE(PathExists(path));
  // A folder too long for a socket's path, or none at all, will not do.
  const std::string far = place.path() + "/" + std::string(90, 'x');
  ASSERT_TRUE(MakeDirectories(far).ok());
  for (const std::string& odd : {place.path() + "/none", far}) {
    ASSERT_EQ(setenv("TMPDIR", odd.c_str(), 1), 0);
    const auto elsewhere = RunDirectory::Make();
    ASSERT_TRUE(elsewhere.ok()) << elsewhere.status();
    EXPECT_THAT((*elsewhere)->path(), StartsWith("/tmp/rubato."));
  }
  unsetenv("TMPDIR");
}

TEST_F(JobDirectoryTest, EventsAreOneJsonObjectALine) {
  const std::string path = scratch_.path() + "/events.jsonl";
  (*EventLog::Open(path))->Write(absl::FromUnixSeconds(1), "worker_lost", "\"worker\":3");
  (*EventLog::Open(path))->Write(absl::FromUnixSeconds(2), "done", "");
  std::ifstream file(path);
  std::string line;
  std::getline(file, line);
  EXPECT_EQ(nlohmann::json::parse(line)["worker"], 3);
  std::getline(file, line);
  EXPECT_EQ(nlohmann::json::parse(line)["event"], "done");
}

// The check value of CRC-32C ("123456789" -> e3069283), masked as TensorBoard does.
TEST(TensorBoardTest, ChecksumsAreCrc32c) {
  const uint32_t crc = 0xe3069283u;
  EXPECT_EQ(MaskedCrc32c("123456789"), ((crc >> 15) | (crc << 17)) + 0xa282ead8u);
}

TEST(TensorBoardTest, ARecordCanBeTakenApart) {
  const std::string record = ScalarRecord(absl::FromUnixSeconds(5), 300, "train/loss", 0.25);
  ByteReader reader(record);
  const auto length = reader.Get<uint64_t>();
  EXPECT_EQ(reader.Get<uint32_t>(), MaskedCrc32c(record.substr(0, 8)));
  const absl::string_view event = reader.GetBytes(length);
  EXPECT_EQ(reader.Get<uint32_t>(), MaskedCrc32c(event));
  EXPECT_TRUE(reader.ok());
  EXPECT_EQ(reader.remaining(), 0u);
  ByteReader fields(event);
  EXPECT_EQ(fields.Get<uint8_t>(), 1 << 3 | 1);  // wall_time
  EXPECT_EQ(fields.Get<double>(), 5.0);
  EXPECT_EQ(fields.Get<uint8_t>(), 2 << 3);  // step, a varint of two bytes
  EXPECT_EQ(fields.Get<uint8_t>(), 300 % 128 + 128);
  EXPECT_EQ(fields.Get<uint8_t>(), 300 / 128);
  EXPECT_THAT(std::string(event), HasSubstr("train/loss"));
}

}  // namespace
}  // namespace rubato
