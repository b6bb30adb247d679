#include "worker/train/report/trainer_log.h"

#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "absl/time/time.h"
#include "base/random.h"
#include "base/trace_context.h"

namespace ampd::train {

void LogLine(std::string_view text) {
  std::string line(text);
  std::replace(line.begin(), line.end(), '\n', ' ');
  line = absl::StrCat(absl::FormatTime("%Y-%m-%dT%H:%M:%SZ ", absl::Now(), absl::UTCTimeZone()), line, "\n");
  std::fwrite(line.data(), 1, line.size(), stderr);  // Unbuffered, so this is one write.
}

void JoinTrace(std::string_view traceparent) {
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  if (!parent.has_value()) {
    return;
  }
  const TraceContext own = ChildSpan(*parent, SystemRandom());
  LogLine(absl::StrCat("the attempt belongs to a trace: trace_id=", TraceIdOf(own), " span_id=", SpanIdOf(own),
                       " parent_span_id=", ParentSpanIdOf(own)));
}

}  // namespace ampd::train
