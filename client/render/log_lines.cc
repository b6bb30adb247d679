#include "client/render/log_lines.h"

#include <utility>

#include "base/units.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr size_t kTimeBytes = sizeof("2026-01-31T23:59:59Z ") - 1;

}  // namespace

std::optional<absl::Time> TimeOfLogLine(std::string_view line) {
  absl::Time time;
  const std::string begin(line.substr(0, kTimeBytes));
  return begin.size() == kTimeBytes && absl::ParseTime("%Y-%m-%d%ET%H:%M:%SZ ", begin, &time, nullptr)
             ? std::optional(time)
             : std::nullopt;
}

size_t StartOfLastLines(std::string_view text, int num_lines) {
  if (num_lines == 0) {
    return text.size();
  }
  size_t start = text.size();
  for (int i = 0; i < num_lines && start > 0; ++i) {
    const size_t end_of_line_before = start >= 2 ? text.rfind('\n', start - 2) : std::string_view::npos;
    start = end_of_line_before == std::string_view::npos ? 0 : end_of_line_before + 1;
  }
  return start;
}

std::optional<absl::Time> ParseMoment(std::string_view text, absl::Time now, absl::TimeZone zone) {
  if (const std::optional<absl::Duration> ago = ParseDuration(text); ago.has_value()) {
    return *ago < absl::ZeroDuration() ? std::nullopt : std::optional(now - *ago);
  }
  absl::Time time;
  const std::string moment(text);
  if (absl::ParseTime(absl::RFC3339_full, moment, &time, nullptr)) {
    return time;
  }
  for (const char* format :
       {"%Y-%m-%d%ET%H:%M:%S", "%Y-%m-%d %H:%M:%S", "%Y-%m-%d%ET%H:%M", "%Y-%m-%d %H:%M", "%Y-%m-%d"}) {
    if (absl::ParseTime(format, moment, zone, &time, nullptr)) {
      return time;
    }
  }
  // Accept a time as ampctl prints it. Such a time ends in the abbreviation of a time zone, which must be that of
  // `zone` or UTC.
  const size_t space = moment.rfind(' ');
  for (const absl::TimeZone named : {zone, absl::UTCTimeZone()}) {
    if (space != std::string::npos &&
        absl::ParseTime("%Y-%m-%d %H:%M:%S", moment.substr(0, space), named, &time, nullptr) &&
        FormatTimestamp(time, named) == moment) {
      return time;
    }
  }
  return std::nullopt;
}

LogSince::LogSince(absl::Time since) : since_(absl::FromUnixSeconds(absl::ToUnixSeconds(since))) {}

std::string LogSince::Filter(std::string_view piece) {
  while (!has_begun_ && !piece.empty()) {
    const size_t line_end = piece.find('\n');
    const std::string_view part = piece.substr(0, line_end == std::string_view::npos ? line_end : line_end + 1);
    if (!skips_line_) {
      line_.append(part);
      has_begun_ = TimeOfLogLine(line_).value_or(absl::InfinitePast()) >= since_;
      skips_line_ = line_.size() >= kTimeBytes;
    }
    piece.remove_prefix(part.size());
    if (!has_begun_ && (skips_line_ || line_end != std::string_view::npos)) {
      line_.clear();
    }
    skips_line_ = skips_line_ && line_end == std::string_view::npos;
  }
  return has_begun_ ? std::exchange(line_, "").append(piece) : "";
}

}  // namespace ampd::client
