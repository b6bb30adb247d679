#include "base/grpc/grpc_target.h"

#include <fcntl.h>
#include <sys/un.h>

#include <filesystem>

#include "absl/strings/str_cat.h"

namespace ampd {

std::string GrpcTarget(const std::string& address) {
  constexpr char kScheme[] = "unix:";
  if (!address.starts_with(kScheme)) {
    return address;
  }
  const std::filesystem::path path(address.substr(sizeof(kScheme) - 1));
  if (path.native().size() < sizeof(sockaddr_un::sun_path)) {
    return address;
  }
  const int folder = open(path.parent_path().c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return folder < 0 ? address : absl::StrCat(kScheme, "/proc/self/fd/", folder, "/", path.filename().string());
}

}  // namespace ampd
