#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/text_file.h"

// Tables in a text: records of cells, whose names are the first record.
namespace ampd::text {

// What a quotation mark means.
enum class Quotes {
  kAuto,  // told by the whole file
  kCsv,   // RFC 4180, as pandas writes it: around a cell, where it stands for nothing; two of them in it are one
  kNone,  // itself
};

struct TableFormat {
  char delimiter = '\t';
  Quotes quotes = Quotes::kNone;  // not kAuto
};

// How a file with these cells in its first record is a table. Cells stand between tabs where its first line has one,
// and otherwise between commas. Between commas quotation marks are CSV's. Between tabs they may be either: CSV's where
// every mark of the file is as CSV has it and some could not be otherwise, a part of the text where some can't be CSV's
// or there are none. DATA_LOSS naming the line where both may be meant. Reads the whole file.
absl::StatusOr<TableFormat> FormatOfTable(const std::string& path, Quotes quotes);

// One record after the other. Thread-compatible.
class TableReader {
 public:
  TableReader(TextFile* file, const TableFormat& format) : file_(file), format_(format) {}

  // The next record that is no empty line; nothing in `cells` at the end. DATA_LOSS naming the line: quotation marks
  // that are not as CSV has them.
  absl::Status Next(std::vector<std::string>* cells);
  // Of the record's beginning, from 1 on.
  int64_t line() const { return line_; }

 private:
  TextFile* const file_;
  const TableFormat format_;
  int64_t num_lines_ = 0;
  int64_t line_ = 0;
};

}  // namespace ampd::text
