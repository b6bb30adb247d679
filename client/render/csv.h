#pragma once

#include <string>
#include <vector>

#include "google/protobuf/timestamp.pb.h"

// Comma-separated values.
namespace ampd::client {

// Returns the cells as one line of CSV, which ends in a newline. A cell with a comma, a quote or a line break is quoted
// as RFC 4180 requires. A spreadsheet takes a text for a formula if it begins with = + - @, a tab or a carriage return;
// such a text gets an apostrophe in front, so that no formula runs when the file is opened. Numbers stay as they are.
std::string CsvLine(const std::vector<std::string>& cells);

// Return a value as a cell of a CSV file for programs: a number with all its digits, or a time in the form
// 2026-01-31T23:59:59.25Z. A time that is not set gives an empty cell.
std::string CsvNumber(double value);
std::string CsvNumber(float value);
std::string CsvTime(bool is_set, const google::protobuf::Timestamp& time);
std::string CsvTime(int64_t unix_micros);

}  // namespace ampd::client
