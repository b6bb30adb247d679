#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/text_file.h"

// Tables in text files: records of cells, with the column names in the first record.
namespace ampd::text {

// The meaning of quotation marks in a table.
enum class Quotes {
  kAuto,  // Detected from the whole file.
  kCsv,   // RFC 4180, as pandas writes it: marks enclose a cell and are removed; a doubled mark inside stands for one.
  kNone,  // Quotation marks are part of the text.
};

struct TableFormat {
  char delimiter = '\t';
  Quotes quotes = Quotes::kNone;  // Not kAuto.
};

// Detects the format of a table. Commas separate cells if the first line has a comma and no tab; otherwise tabs do. If
// `quotes` is not kAuto, it is the meaning of quotation marks. If it is kAuto, the marks of a table with commas are
// CSV's (kCsv), and those of a table with tabs are examined in the whole file:
//
//   kCsv        All marks follow CSV's rules, and some would make no sense as text.
//   kNone       There are no marks, or they violate CSV's rules and none is doubled.
//   DATA_LOSS   The marks do not show which meaning is right; the error names the line.
absl::StatusOr<TableFormat> FormatOfTable(const std::string& path, Quotes quotes);

// Reads the records of a table one after the other. Thread-compatible.
class TableReader {
 public:
  TableReader(TextFile* file, const TableFormat& format) : file_(file), format_(format) {}

  // Reads the next record that is not an empty line; `cells` is empty at the end. Returns DATA_LOSS if quotation marks
  // violate CSV's rules. This error does not name the line; the caller adds it.
  absl::Status Next(std::vector<std::string>* cells);
  // Line at which the record begins, from 1.
  int64_t line() const { return line_; }

 private:
  TextFile* const file_;
  const TableFormat format_;
  int64_t num_lines_ = 0;
  int64_t line_ = 0;
};

}  // namespace ampd::text
