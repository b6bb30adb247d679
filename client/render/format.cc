#include "client/render/format.h"

#include <algorithm>
#include <cmath>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"

namespace ampd::client {
namespace {

bool IsContinuation(char c) { return (static_cast<unsigned char>(c) & 0xC0) == 0x80; }

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

std::string FormatTimestamp(int64_t unix_micros, absl::TimeZone zone) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(unix_micros), zone);
}

std::string FormatNumber(double value) {
  if (!std::isfinite(value)) {
    return std::isnan(value) ? "nan" : value > 0 ? "inf" : "-inf";
  }
  constexpr double kWholeUpTo = 1e8;
  if (value == std::floor(value) && std::abs(value) < kWholeUpTo) {
    return absl::StrCat(static_cast<int64_t>(value));  // prints a loss scale as 65536, not as 6.554e+04
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

std::string Printable(std::string_view text) {
  std::string clean;
  for (size_t i = 0; i < text.size(); ++i) {
    const auto byte = static_cast<unsigned char>(text[i]);
    const auto next = static_cast<unsigned char>(i + 1 < text.size() ? text[i + 1] : 0);
    if (byte == 0xC2 && next >= 0x80 && next < 0xA0) {  // U+0080 to U+009F; one of them begins an escape sequence
      clean += '?';
      ++i;
    } else {
      clean += byte < 0x20 || byte == 0x7F ? '?' : text[i];
    }
  }
  return clean;
}

std::string Palette::Paint(const char* code, const std::string& text) const {
  return on_ ? absl::StrCat("\x1b[", code, "m", text, "\x1b[0m") : text;
}

}  // namespace ampd::client
