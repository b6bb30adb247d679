#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "absl/time/time.h"

// Values as short text.
namespace ampd::client {

std::string FormatBytes(int64_t bytes);           // 512 B, 1.5 MiB, 80.0 GiB
std::string FormatFlops(double rate);             // 35.2 GFLOP/s, 1.3 TFLOP/s
std::string FormatSpan(absl::Duration duration);  // 8s, 3m12s, 2h05m, 3d04h
std::string FormatNumber(double value);           // 65536, 0.1234, 1.2e-05, nan
std::string FormatCount(int64_t value);           // 1,234,567

// Formats the time in `zone` and appends the zone's abbreviation: 2026-01-31 23:59:59 CET. All times that ampctl prints
// for people have this format.
std::string FormatTimestamp(absl::Time time, absl::TimeZone zone);
std::string FormatTimestamp(int64_t unix_micros, absl::TimeZone zone);

// Returns how many terminal columns the text takes: the number of its code points, without escape sequences.
int DisplayWidth(std::string_view text);
// Returns the text truncated or padded with spaces to `width` columns. REQUIRES: the text has no escape sequences.
std::string FitTo(std::string_view text, int width);
// Returns the text truncated to `width` columns, with ".." at its end if it was truncated. Never splits an escape
// sequence. Turns colours off at the end of the text.
std::string ClipTo(std::string_view text, int width);
// Returns the text on one line, with control characters escaped (OneLine of base/text.h), so that a name or message
// cannot control the terminal.
std::string Printable(std::string_view text);
// Returns the text with control characters escaped, except line breaks and tabs.
std::string PrintableLines(std::string_view text);
// Return a text with control characters escaped, in one line or in several. Keep the colours of Palette, for a text
// that ampctl has composed. Parts from other programs must already be escaped by Printable, because they could contain
// colours too.
std::string ColouredLine(std::string_view text);
std::string ColouredLines(std::string_view text);

// Escapes a log that arrives in pieces, in the same way as PrintableLines; "\r\n" becomes a line break. A character may
// be split between two pieces. Single-threaded.
class LogCleaner {
 public:
  // Takes the next piece of the log. Returns the text that is complete now.
  std::string Clean(std::string_view piece);
  // Returns the remaining text. Call it at the end of the log.
  std::string Finish();

 private:
  std::string held_;  // the end of the last piece: a part of a character, or "\r"
};

// The text in place of a missing value.
inline constexpr char kNothing[] = "-";
// Returns Printable(text), or kNothing if the text is empty.
std::string OrNothing(std::string_view text);
// Returns one line of a description: a column with the subject, then the text.
std::string DetailLine(std::string_view subject, const std::string& text);

// Colours texts with the terminal's escape sequences (SGR). Returns texts unchanged when colours are off.
class Palette {
 public:
  explicit Palette(bool on) : on_(on) {}
  bool on() const { return on_; }
  std::string Bold(const std::string& text) const { return Paint("1", text); }
  std::string Dim(const std::string& text) const { return Paint("2", text); }
  std::string Red(const std::string& text) const { return Paint("31", text); }
  std::string Green(const std::string& text) const { return Paint("32", text); }
  std::string Yellow(const std::string& text) const { return Paint("33", text); }

 private:
  std::string Paint(const char* code, const std::string& text) const;

  bool on_;
};

}  // namespace ampd::client
