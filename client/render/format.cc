#include "client/render/format.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"

namespace ampd::client {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

// Returns 1 if `text` begins with a line break or a tab, otherwise 0. REQUIRES: `text` is not empty.
size_t LayoutBytes(std::string_view text) { return text.front() == '\n' || text.front() == '\t' ? 1 : 0; }

// Returns the length of the colour's escape sequence with which `text` begins; 0 if it begins with none. REQUIRES:
// `text` is not empty.
size_t ColourBytes(std::string_view text) {
  if (text.front() != '\x1b') {
    return 0;
  }
  for (const char* code : {"0", "1", "2", "31", "32", "33"}) {
    const std::string sequence = absl::StrCat("\x1b[", code, "m");
    if (text.substr(0, sequence.size()) == sequence) {
      return sequence.size();
    }
  }
  return 0;
}

// Returns the text with everything escaped that could control a terminal, except what `kept` allows. At each place,
// `kept` gets the remaining text, which is not empty. `kept` returns how many bytes at the beginning of that text to
// keep unescaped.
template <typename Kept>
std::string Escaped(std::string_view text, Kept kept) {
  std::string escaped;
  while (!text.empty()) {
    size_t num_bytes = kept(text);
    if (num_bytes > 0) {
      escaped += text.substr(0, num_bytes);
    } else {
      num_bytes = std::min(text.find_first_of("\n\t\x1b", 1), text.size());
      escaped += OneLine(text.substr(0, num_bytes));
    }
    text.remove_prefix(num_bytes);
  }
  return escaped;
}

// Returns the number of bytes at the end of `text` that may be incomplete, because they begin a UTF-8 character or
// "\r\n".
size_t IncompleteBytes(std::string_view text) {
  if (!text.empty() && text.back() == '\r') {
    return 1;
  }
  constexpr size_t kLongest = 3;
  for (size_t length = 1; length <= std::min(kLongest, text.size()); ++length) {
    const auto byte = static_cast<unsigned char>(text[text.size() - length]);
    if (byte >= 0xC0) {
      const size_t num_bytes = byte >= 0xF0 ? 4 : byte >= 0xE0 ? 3 : 2;
      return length < num_bytes ? length : 0;
    }
    if (byte < 0x80) {
      return 0;
    }
  }
  return 0;
}

}  // namespace

std::string FormatBytes(int64_t bytes) {
  constexpr const char* kUnits[] = {"KiB", "MiB", "GiB", "TiB", "PiB"};
  if (bytes < 1024) {
    return absl::StrCat(bytes, " B");
  }
  double value = static_cast<double>(bytes) / 1024;
  size_t unit = 0;
  while (value >= 1023.95 && unit + 1 < std::size(kUnits)) {
    value /= 1024;
    ++unit;
  }
  return absl::StrFormat("%.1f %s", value, kUnits[unit]);
}

std::string FormatFlops(double rate) {
  constexpr const char* kUnits[] = {"MFLOP/s", "GFLOP/s", "TFLOP/s", "PFLOP/s"};
  double value = rate / 1e6;
  size_t unit = 0;
  while (value >= 999.5 && unit + 1 < std::size(kUnits)) {
    value /= 1000;
    ++unit;
  }
  return absl::StrFormat("%.3g %s", value, kUnits[unit]);
}

std::string FormatSpan(absl::Duration duration) {
  if (duration == absl::InfiniteDuration() || duration < absl::ZeroDuration()) {
    return "-";
  }
  const int64_t seconds = absl::ToInt64Seconds(duration);
  constexpr int64_t kHour = 3600;
  constexpr int64_t kDay = 24 * kHour;
  if (seconds < 60) {
    return absl::StrCat(seconds, "s");
  }
  if (seconds < kHour) {
    return absl::StrFormat("%dm%02ds", seconds / 60, seconds % 60);
  }
  return seconds < kDay ? absl::StrFormat("%dh%02dm", seconds / kHour, seconds % kHour / 60)
                        : absl::StrFormat("%dd%02dh", seconds / kDay, seconds % kDay / kHour);
}

std::string FormatTimestamp(absl::Time time, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S %Z", time, zone);
}

std::string FormatTimestamp(int64_t unix_micros, absl::TimeZone zone) {
  return FormatTimestamp(absl::FromUnixMicros(unix_micros), zone);
}

std::string FormatNumber(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  constexpr double kWholeUpTo = 1e8;
  if (value == std::floor(value) && std::abs(value) < kWholeUpTo) {
    return absl::StrCat(static_cast<int64_t>(value));  // 65536, not 6.554e+04
  }
  return absl::StrFormat("%.4g", value);
}

std::string FormatCount(int64_t value) {
  std::string text = absl::StrCat(value);
  const int first = value < 0 ? 1 : 0;
  for (int i = static_cast<int>(text.size()) - 3; i > first; i -= 3) {
    text.insert(i, 1, ',');
  }
  return text;
}

int DisplayWidth(std::string_view text) {
  int width = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      while (i < text.size() && text[i] != 'm') {
        ++i;
      }
    } else if (!IsContinuation(text[i])) {
      ++width;
    }
  }
  return width;
}

std::string FitTo(std::string_view text, int width) {
  std::string fitted;
  int columns = 0;
  for (const char c : text) {
    columns += IsContinuation(c) ? 0 : 1;
    if (columns > width) {
      return fitted;
    }
    fitted += c;
  }
  return fitted + std::string(width - columns, ' ');
}

std::string ClipTo(std::string_view text, int width) {
  constexpr int kDots = 2;
  if (DisplayWidth(text) <= width) {
    return std::string(text);
  }
  std::string clipped;
  bool coloured = false;
  int columns = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    if (text[i] == '\x1b') {
      const size_t end = std::min(text.find('m', i), text.size() - 1);
      clipped += text.substr(i, end + 1 - i);
      coloured = true;
      i = end;
      continue;
    }
    columns += IsContinuation(text[i]) ? 0 : 1;
    if (columns > std::max(0, width - kDots)) {
      break;
    }
    clipped += text[i];
  }
  return clipped + std::string(std::min(width, kDots), '.') + (coloured ? "\x1b[0m" : "");
}

std::string Printable(std::string_view text) { return OneLine(text); }

std::string OrNothing(std::string_view text) { return text.empty() ? kNothing : Printable(text); }

std::string DetailLine(std::string_view subject, const std::string& text) {
  constexpr int kSubjectWidth = 12;
  return FitTo(subject, kSubjectWidth) + text + "\n";
}

std::string PrintableLines(std::string_view text) { return Escaped(text, LayoutBytes); }

std::string ColouredLine(std::string_view text) { return Escaped(text, ColourBytes); }

std::string ColouredLines(std::string_view text) {
  return Escaped(text, [](std::string_view rest) { return LayoutBytes(rest) + ColourBytes(rest); });
}

std::string LogCleaner::Clean(std::string_view piece) {
  std::string text = std::exchange(held_, "");
  text += piece;
  const size_t complete = text.size() - IncompleteBytes(text);
  held_ = text.substr(complete);
  text.resize(complete);
  return PrintableLines(absl::StrReplaceAll(text, {{"\r\n", "\n"}}));
}

std::string LogCleaner::Finish() { return Printable(std::exchange(held_, "")); }

std::string Palette::Paint(const char* code, const std::string& text) const {
  return on_ ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : text;
}

}  // namespace ampd::client
