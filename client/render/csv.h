#pragma once

#include <string>
#include <vector>

#include "google/protobuf/timestamp.pb.h"

// Comma-separated values.
namespace ampd::client {

// Returns the cells as one line of CSV, which ends in a newline. A cell with a comma, a quote or a line break is quoted
// as RFC 4180 says. A text that a spreadsheet would take for a formula, because it begins with = + - @, a tab or a
// carriage return, gets an apostrophe in front, so that opening the file computes nothing; numbers stay as they are.
std::string CsvLine(const std::vector<std::string>& cells);

// Return a value as the cell of a CSV file, for programs: numbers with all their digits, and times as
// 2026-01-31T23:59:59.25Z. A time that is not set gives an empty cell.
std::string CsvNumber(double value);
std::string CsvNumber(float value);
std::string CsvTime(bool is_set, const google::protobuf::Timestamp& time);
std::string CsvTime(int64_t unix_micros);

}  // namespace ampd::client
