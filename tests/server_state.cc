#include "tests/server_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/params/checkpoint_reader.h"
#include "tests/job_runner.h"

namespace rubato {

std::map<std::string, std::string> ServerState(const std::string& job_dir) {
  int64_t newest = 0;
  for (const auto& entry : std::filesystem::directory_iterator(job_dir + "/checkpoints")) {
    newest = std::max<int64_t>(newest, std::atoll(entry.path().filename().c_str()));
  }
  const std::string folder = absl::StrCat(job_dir, "/checkpoints/", newest);
  const auto manifest = nlohmann::json::parse(ReadText(folder + "/manifest.json"));
  std::vector<std::string> bytes;
  for (int64_t s = 0; s < manifest["servers"].get<int64_t>(); ++s) {
    bytes.push_back(ReadText(absl::StrCat(folder, "/server-", s, ".ckpt")));
  }
  std::vector<CheckpointFile> files;
  for (const std::string& file : bytes) files.push_back({folder, file});
  SystemMemory memory(/*huge_pages=*/false);
  Shard shard(memory, {.server = 0, .servers = 1});
  const absl::Status status = RestoreShard(shard, files);
  EXPECT_TRUE(status.ok()) << status;
  std::map<std::string, std::string> all;
  shard.VisitState([&](const std::string& name, absl::string_view state) {
    EXPECT_TRUE(all.emplace(name, std::string(state)).second) << name;
  });
  return all;
}

}  // namespace rubato
