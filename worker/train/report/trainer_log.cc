#include "worker/train/report/trainer_log.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/base/const_init.h"
#include "absl/base/thread_annotations.h"
#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "base/trace_context.h"

namespace ampd::train {
namespace {

ABSL_CONST_INIT absl::Mutex mutex(absl::kConstInit);
// The end of every line; null: none. Not deleted, because threads may log until the process ends.
const std::string* line_end ABSL_GUARDED_BY(mutex) = nullptr;

std::string LineEnd() {
  absl::MutexLock lock(&mutex);
  return line_end == nullptr ? "" : *line_end;
}

}  // namespace

void LogLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ ", absl::Now(), absl::UTCTimeZone()), line, LineEnd(), "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);  // Unbuffered, so this is one write.
}

void JoinTrace(std::string_view traceparent) {
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  if (!parent.has_value()) {
    return;
  }
  const TraceContext own = ChildSpan(*parent, SystemRandom());
  {
    absl::MutexLock lock(&mutex);
    line_end = new std::string(absl::StrCat(" trace_id=", TraceIdOf(own), " span_id=", SpanIdOf(own)));
  }
  LogLine(absl::StrCat("the attempt belongs to a trace: parent_span_id=", ParentSpanIdOf(own)));
}

}  // namespace ampd::train
