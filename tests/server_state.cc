#include "tests/server_state.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/checkpoint_files.h"
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
  std::vector<MappedChain> chains;
  std::vector<CheckpointFile> files;
  for (int64_t s = 0; s < manifest["servers"].get<int64_t>(); ++s) {
    auto chain = MappedChain::Open(job_dir + "/checkpoints", newest, s);
    EXPECT_TRUE(chain.ok()) << chain.status();
    if (!chain.ok()) return {};
    files.insert(files.end(), chain->files().begin(), chain->files().end());
    chains.push_back(*std::move(chain));
  }
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
