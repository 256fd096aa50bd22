// A folder of a test's own, gone when the test ends.
#ifndef RUBATO_ADAPTERS_FILES_TESTING_H_
#define RUBATO_ADAPTERS_FILES_TESTING_H_

#include <cstdlib>
#include <filesystem>
#include <string>

#include "rubato/base/status.h"

namespace rubato {

class TestFolder {
 public:
  TestFolder() {
    std::string pattern = (std::filesystem::temp_directory_path() / "rubato-XXXXXX").string();
    RUBATO_CHECK(mkdtemp(pattern.data()) != nullptr);
    path_ = pattern;
  }
  ~TestFolder() {
    std::error_code ignored;
    std::filesystem::remove_all(path_, ignored);
  }
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;

  const std::string& path() const { return path_; }
  // The path of `name` in here.
  std::string File(const std::string& name) const { return path_ + "/" + name; }

 private:
  std::string path_;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_FILES_TESTING_H_
