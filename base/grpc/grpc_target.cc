#include "base/grpc/grpc_target.h"

#include <fcntl.h>
#include <sys/un.h>

#include "absl/strings/str_cat.h"

namespace ampd {

std::string GrpcTarget(const std::string& address) {
  constexpr char kScheme[] = "unix:";
  if (!address.starts_with(kScheme)) {
    return address;
  }
  const std::string path = address.substr(sizeof(kScheme) - 1);
  const size_t slash = path.rfind('/');
  if (path.size() < sizeof(sockaddr_un::sun_path) || slash == std::string::npos) {
    return address;
  }
  const int folder = open(path.substr(0, slash + 1).c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC);
  return folder < 0 ? address : absl::StrCat(kScheme, "/proc/self/fd/", folder, path.substr(slash));
}

}  // namespace ampd
