#pragma once

#include <fcntl.h>
#include <unistd.h>

#include <charconv>
#include <filesystem>
#include <string>
#include <vector>

#include "base/io/file.h"

namespace ampd {

// Makes every read from the file `path` fail with EIO, as on a failing disk, through all descriptors that this process
// has open for it. Replaces each of them by a descriptor of /proc/self/mem, whose beginning cannot be read because
// nothing is mapped at address 0. Bytes that a caller has already buffered stay readable. Returns the number of
// descriptors replaced.
inline int BreakReads(const std::filesystem::path& path) {
  const std::filesystem::path broken = std::filesystem::canonical(path);
  std::vector<int> descriptors;
  for (const auto& entry : std::filesystem::directory_iterator("/proc/self/fd")) {
    std::error_code error;
    if (std::filesystem::read_symlink(entry.path(), error) == broken) {
      const std::string number = entry.path().filename();
      std::from_chars(number.data(), number.data() + number.size(), descriptors.emplace_back());
    }
  }
  const UniqueFd unreadable(open("/proc/self/mem", O_RDONLY | O_CLOEXEC));
  for (const int descriptor : descriptors) {
    dup2(unreadable.get(), descriptor);
  }
  return static_cast<int>(descriptors.size());
}

}  // namespace ampd
