#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/time/time.h"

// Durations and sizes as people write them in job files and options.
namespace ampd {

// Descriptions of durations and sizes, with examples, for messages such as "must be ..." and "is not ...".
inline constexpr char kDurationWords[] = "a duration such as 90s, 1h30m or 1d12h";
inline constexpr char kByteCountWords[] = "a number of bytes such as 4096, 500MB or 4GiB";

// Parses a duration: one or more numbers, each with a unit (d, h, m, s, ms, us or ns), without spaces: "90s", "1.5h",
// "1d12h". "0" needs no unit. Returns nothing for any other text, and for more than 10,000 years, which is the limit of
// google.protobuf.Duration.
std::optional<absl::Duration> ParseDuration(std::string_view text);

// Parses a number of bytes: a whole number, or a number with a unit and at most one space between them: "4096", "4GiB",
// "1.5 TiB". KiB, MiB, GiB, TiB and PiB are powers of 1024; KB, MB, GB, TB and PB are powers of 1000; B is one byte.
// Units may be in any case. A number with decimals is rounded to whole bytes. Returns nothing for any other text, for a
// part of a byte ("0.3B"), for more than 2^63 - 1 bytes, and for a number with decimals of 2^53 bytes or more.
std::optional<int64_t> ParseByteCount(std::string_view text);

// Returns why ParseDuration or ParseByteCount refuses a text that is a duration or a size, but too long or too large:
// "is longer than 10000 years", "is more than 8191PiB". Empty for any other text.
std::string WhyTooLong(std::string_view text);
std::string WhyTooManyBytes(std::string_view text);

// Returns the duration that was probably meant by a text that ParseDuration refuses: "90s" for "90", "5m" for
// "5 minutes", "7d" for "1w", "2h" for "2 hours ago", "1h30m" for "1h30", for Slurm's "01:30:00" and for "PT1H30M" of
// ISO 8601. Two numbers with a ':' between them are minutes and seconds, as Slurm reads them. Empty if there is no good
// guess.
std::string GuessDuration(std::string_view text);

// Returns the size that was probably meant by a text that ParseByteCount refuses: "4GiB" for "4Gi", "4GB" for "4G".
// Empty if there is no good guess.
std::string GuessByteCount(std::string_view text);

// Say that `text` is not a duration or not a size, with an example and the best guess: "'4G' is not a number of bytes
// such as 4096, 500MB or 4GiB; did you mean '4GB'?"
std::string NotADuration(std::string_view text);
std::string NotAByteCount(std::string_view text);

// Returns the size in the largest unit in which it is a whole number: "20GiB", "1500B". ParseByteCount reads it back.
std::string ByteCountText(int64_t bytes);

}  // namespace ampd
