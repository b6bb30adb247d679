#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

// Functions that select lines of a trainer's log. Each line that the trainer writes begins with its time in UTC,
// "2026-01-31T22:59:59Z " (worker/train/report/trainer_log.h); lines of libraries have no time.
namespace ampd::client {

// Returns the time with which the line begins; nothing if it does not begin with a time.
std::optional<absl::Time> TimeOfLogLine(std::string_view line);

// Returns the offset at which the last `num_lines` lines of the text begin. If the text does not end in a line break,
// its last part counts as a line too.
size_t StartOfLastLines(std::string_view text, int num_lines);

// What ParseMoment accepts, for the end of an error message.
inline constexpr char kMomentWords[] = "a duration such as 10m or a time such as 2026-01-31T23:59:59Z";

// Parses a moment: a time, or a duration, which is subtracted from `now`. Times have the format of RFC 3339
// (2026-01-31T23:59:59Z, 2026-01-31T23:59:59+01:00) or, without an offset, are in `zone`: "2026-01-31 23:59:59",
// "2026-01-31 23:59", "2026-01-31". Also accepts times as ampctl prints them (FormatTimestamp).
std::optional<absl::Time> ParseMoment(std::string_view text, absl::Time now, absl::TimeZone zone);

// Removes the beginning of a log that arrives in pieces: all lines before the first line whose time is `since` or
// later. A line without a time has the time of the line before it. Single-threaded.
class LogSince {
 public:
  // Ignores the fraction of a second in `since`, because the times of lines are whole seconds.
  explicit LogSince(absl::Time since);

  // Returns the part of the piece that is to be printed.
  std::string Filter(std::string_view piece);

 private:
  const absl::Time since_;
  std::string line_;         // the beginning of the current line, until its time is known
  bool skips_line_ = false;  // whether the rest of the current line is removed
  bool has_begun_ = false;   // whether the first line to print was found
};

}  // namespace ampd::client
