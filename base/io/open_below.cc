#include "base/io/open_below.h"

#include <fcntl.h>
#include <linux/openat2.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/str_split.h"

namespace ampd {

UniqueFd OpenFolderBelow(int root, const std::string& path) {
  open_how how = {};
  how.flags = O_RDONLY | O_DIRECTORY | O_CLOEXEC;
  how.resolve = RESOLVE_BENEATH | RESOLVE_NO_SYMLINKS | RESOLVE_NO_MAGICLINKS;
  return UniqueFd(static_cast<int>(syscall(SYS_openat2, root, path.empty() ? "." : path.c_str(), &how, sizeof(how))));
}

bool StaysBelow(const std::string& path) {
  const std::vector<std::string> parts = absl::StrSplit(path, '/');
  return std::none_of(parts.begin(), parts.end(), [](const std::string& part) {
    return part.empty() || part == "." || part == ".." || part.find('\n') != part.npos;
  });
}

}  // namespace ampd
