// The master's ear: a gRPC server that hands every call to a MasterHandler.
#ifndef RUBATO_ADAPTERS_GRPC_MASTER_SERVICE_H_
#define RUBATO_ADAPTERS_GRPC_MASTER_SERVICE_H_

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "rubato/adapters/grpc/master_handler.h"

namespace rubato {

class MasterService {
 public:
  // Listens on "unix:/path" or "host:port" (port 0 picks one). UNAVAILABLE if the address is taken.
  static absl::StatusOr<std::unique_ptr<MasterService>> Start(const std::string& address,
                                                              MasterHandler* handler);
  virtual ~MasterService() = default;  // Stops: calls under way get a moment to end.
  // The address as others should dial it.
  virtual std::string address() const = 0;
};

}  // namespace rubato

#endif  // RUBATO_ADAPTERS_GRPC_MASTER_SERVICE_H_
