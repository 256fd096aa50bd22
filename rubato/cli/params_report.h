// What `rubato params` prints: servers' answers added up, as a table or as JSON.
#ifndef RUBATO_CLI_PARAMS_REPORT_H_
#define RUBATO_CLI_PARAMS_REPORT_H_

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "rubato/params/inspection.h"

namespace rubato {

// One that did not answer.
struct SilentServer {
  int64_t server = 0;
  std::string why;
};

struct ParamsReport {
  std::string job;
  std::vector<ServerInspection> servers;
  std::vector<ServerInspection> before;  // The look before: rates are since then.
  int64_t checkpoint = 0;                // Read from this one, not from running servers; 0: live.
  std::vector<SilentServer> silent;
  // Whether those that are silent hold something that all sums are without.
  bool partial() const;
  bool left = false;  // Servers have left, and what they counted with them.
  // Whether rows admitted, refused and evicted are known since the job began. Checkpoints of
  // earlier builds do not tell.
  bool counts_known() const;
};

nlohmann::ordered_json ParamsJson(const ParamsReport& report, size_t top);
std::string ParamsTable(const ParamsReport& report, size_t top);

}  // namespace rubato

#endif  // RUBATO_CLI_PARAMS_REPORT_H_
