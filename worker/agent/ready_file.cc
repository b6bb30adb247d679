#include "worker/agent/ready_file.h"

#include <unistd.h>

#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"

namespace ampd::agent {

absl::Status WriteReadyFile(const std::string& path, const std::string& metrics_address,
                            const std::vector<v1::Device>& devices) {
  std::string text = absl::StrCat(metrics_address, "\n");
  for (const v1::Device& device : devices) {
    absl::StrAppend(&text, DescribeDevice(device), "\n");
  }
  return WriteFileAtomically(path, text);
}

absl::Status RemoveReadyFile(const std::string& path) {
  return unlink(path.c_str()) == 0 || errno == ENOENT ? absl::OkStatus() : ErrnoError(errno, "remove");
}

std::string DescribeDevice(const v1::Device& device) {
  return absl::StrCat(device.id(), ", ", device.name(), ", ", device.memory_total_bytes() >> 20, " MiB");
}

}  // namespace ampd::agent
