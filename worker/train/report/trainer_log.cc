#include "worker/train/report/trainer_log.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"

namespace ampd::train {

void LogLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ ", absl::Now(), absl::UTCTimeZone()), line, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);  // Unbuffered, so this is one write.
}

}  // namespace ampd::train
