#include "rubato/adapters/posix/check_address.h"

#include <filesystem>
#include <string>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "rubato/adapters/posix/frame_socket.h"
#include "rubato/base/status.h"

namespace rubato {

absl::Status CheckAddress(absl::string_view address) {
  return SocketAddress::Parse(address).status();
}

absl::Status CheckListenAddress(absl::string_view address) {
  RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
  if (parsed.is_unix()) {
    const std::filesystem::path folder = std::filesystem::path(parsed.path).parent_path();
    std::error_code ignored;
    if (!folder.empty() && !std::filesystem::is_directory(folder, ignored)) {
      return absl::NotFoundError(absl::StrCat(address, ": there is no folder ", folder.string()));
    }
  }
  asio::io_context io;
  return FrameListener::Listen(io, parsed).status();
}

absl::Status CheckReachable(absl::string_view address) {
  RUBATO_ASSIGN_OR_RETURN(const SocketAddress parsed, SocketAddress::Parse(address));
  if (parsed.is_unix()) return absl::OkStatus();
  std::string host = parsed.host;
  std::erase_if(host, [](char c) { return c == '[' || c == ']'; });
  asio::io_context io;
  asio::error_code unknown;
  asio::ip::tcp::resolver resolver(io);
  for (const auto& found : resolver.resolve(host, "0", unknown)) {
    if (!found.endpoint().address().is_unspecified()) continue;
    return absl::InvalidArgumentError(
        absl::StrCat("others cannot reach a server at ", address,
                     ": name the address of this machine that they know"));
  }
  return absl::OkStatus();
}

bool StaysHere(absl::string_view address) {
  if (absl::StartsWith(address, "unix:")) return true;
  const absl::StatusOr<SocketAddress> parsed = SocketAddress::Parse(address);
  return parsed.ok() && parsed->StaysHere();
}

}  // namespace rubato
