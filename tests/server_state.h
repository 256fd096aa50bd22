// What parameter servers held, for tests that compare runs.
#ifndef RUBATO_TESTS_SERVER_STATE_H_
#define RUBATO_TESTS_SERVER_STATE_H_

#include <map>
#include <string>

namespace rubato {

// All that the newest checkpoint of a job holds, by names that do not depend on who held it: rows,
// counts and dense slices, with their optimizer state.
std::map<std::string, std::string> ServerState(const std::string& job_dir);

}  // namespace rubato

#endif  // RUBATO_TESTS_SERVER_STATE_H_
