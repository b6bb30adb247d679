#include "server/monitoring/memory_watch.h"

#include <malloc.h>
#include <unistd.h>

#include <algorithm>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "base/io/control_group.h"
#include "base/io/file.h"
#include "base/units.h"

namespace ampd::server {
namespace {

constexpr int64_t kMaxFileBytes = 1 << 16;
constexpr size_t kManyFreeBytes = size_t{64} << 20;

std::string ReadSmallFile(const std::string& path) {
  const absl::StatusOr<std::string> text = ReadFile(path, kMaxFileBytes);
  return text.ok() ? *text : "";
}

}  // namespace

int64_t ResidentBytes() {
  const std::string text = ReadSmallFile("/proc/self/statm");
  const std::vector<absl::string_view> words = absl::StrSplit(text, ' ');
  int64_t pages = 0;
  return words.size() > 1 && absl::SimpleAtoi(words[1], &pages) ? pages * sysconf(_SC_PAGESIZE) : 0;
}

void GiveBackMemory() {
  if (mallinfo2().fordblks > kManyFreeBytes) {
    malloc_trim(0);
  }
}

int64_t MemoryOfSystem(const std::string& root) {
  const int64_t of_host = int64_t{sysconf(_SC_PHYS_PAGES)} * sysconf(_SC_PAGESIZE);
  return std::min(of_host, ReadControlGroupLimits(root).memory_bytes.value_or(of_host));
}

absl::Status MemoryWatch::Look() {
  if (options_.limit_bytes == 0) {
    return absl::OkStatus();
  }
  int64_t bytes = options_.resident_bytes();
  if (bytes > options_.limit_bytes) {
    options_.give_back();
    bytes = options_.resident_bytes();
  }
  has_room_ = bytes <= options_.limit_bytes;
  if (static_cast<double>(bytes) <= kHardFactor * static_cast<double>(options_.limit_bytes)) {
    above_since_.reset();
    return absl::OkStatus();
  }
  const absl::Duration now = options_.clock->SinceBoot();
  if (!above_since_.has_value()) {
    above_since_ = now;
  }
  return now - *above_since_ < kGrace
             ? absl::OkStatus()
             : Error(
                   absl::StatusCode::kResourceExhausted, "MEMORY_LIMIT_EXCEEDED",
                   absl::StrCat("the server takes ", bytes >> 20, " MiB of memory, far more than its --memory-limit ",
                                ByteCountText(options_.limit_bytes),
                                ", and ends so that it can be started again; everything that it answered is on disk"));
}

}  // namespace ampd::server
