#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

// Functions that select lines of a trainer's log. Each line that the trainer writes begins with its time in UTC,
// "2026-01-31T22:59:59Z " (worker/train/report/trainer_log.h); lines of libraries have no time.
namespace ampd::client {

// Returns the time with which the line begins; nothing if it begins with none.
std::optional<absl::Time> TimeOfLogLine(std::string_view line);

// Returns the offset at which the last `num_lines` lines of the text begin. A line without a line break at the end of
// the text counts as a line.
size_t StartOfLastLines(std::string_view text, int num_lines);

// What a moment is, with examples, as the end of a sentence.
inline constexpr char kMomentWords[] = "a duration such as 10m or a time such as 2026-01-31T23:59:59Z";

// Parses a moment: a duration, which means that long before `now`, or a time. Times have the format of RFC 3339
// (2026-01-31T23:59:59Z, 2026-01-31T23:59:59+01:00) or, without an offset, are in `zone`: "2026-01-31 23:59:59",
// "2026-01-31 23:59", "2026-01-31". The times that ampctl prints (FormatTimestamp) are accepted, too.
std::optional<absl::Time> ParseMoment(std::string_view text, absl::Time now, absl::TimeZone zone);

// Leaves out the beginning of a log that arrives in pieces: everything before the first line whose time is `since` or
// later. Lines without a time belong to the line before them. Single-threaded.
class LogSince {
 public:
  // The times of lines are whole seconds, so the fraction of `since` does not count.
  explicit LogSince(absl::Time since);

  // Returns the part of the piece to print.
  std::string Filter(std::string_view piece);

 private:
  const absl::Time since_;
  std::string line_;         // the beginning of the current line, until its time is known
  bool skips_line_ = false;  // whether the rest of the current line is left out
  bool has_begun_ = false;   // whether a line was recent enough
};

}  // namespace ampd::client
