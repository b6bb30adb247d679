#include "client/render/csv.h"

#include <array>
#include <charconv>

#include "absl/strings/numbers.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"

namespace ampd::client {
namespace {

bool IsFormula(const std::string& cell) {
  double number = 0;
  return !cell.empty() && std::string_view("=+-@\t\r").find(cell.front()) != std::string_view::npos &&
         !absl::SimpleAtod(cell, &number);
}

std::string Cell(const std::string& text) {
  const std::string cell = IsFormula(text) ? "'" + text : text;
  return cell.find_first_of(",\"\r\n") == std::string::npos ? cell
                                                            : "\"" + absl::StrReplaceAll(cell, {{"\"", "\"\""}}) + "\"";
}

// Returns the shortest text that a reader parses to exactly this number.
template <typename Number>
std::string Shortest(Number value) {
  std::array<char, 32> text = {};
  const std::to_chars_result end = std::to_chars(text.data(), text.data() + text.size(), value);
  return {text.data(), end.ptr};
}

std::string TimeText(absl::Time time) { return absl::FormatTime("%Y-%m-%dT%H:%M:%E*SZ", time, absl::UTCTimeZone()); }

}  // namespace

std::string CsvLine(const std::vector<std::string>& cells) {
  return absl::StrJoin(cells, ",", [](std::string* out, const std::string& text) { out->append(Cell(text)); }) + "\n";
}

std::string CsvNumber(double value) { return Shortest(value); }
std::string CsvNumber(float value) { return Shortest(value); }

std::string CsvTime(bool is_set, const google::protobuf::Timestamp& time) {
  return is_set ? TimeText(absl::FromUnixSeconds(time.seconds()) + absl::Nanoseconds(time.nanos())) : "";
}

std::string CsvTime(int64_t unix_micros) { return TimeText(absl::FromUnixMicros(unix_micros)); }

}  // namespace ampd::client
