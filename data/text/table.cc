#include "data/text/table.h"

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "data/text/views.h"

namespace ampd::text {
namespace {

constexpr size_t kMaxRecordBytes = size_t{16} << 20;

struct Cell {
  std::string text;
  bool is_quoted = false;
  bool has_doubled = false;  // The cell contains a doubled quotation mark.
};

// Splits a record by CSV's rules. Returns false if a quotation mark violates them.
bool SplitCsv(std::string_view record, char delimiter, std::vector<Cell>* cells) {
  cells->clear();
  for (size_t at = 0;; ++at) {
    Cell& cell = cells->emplace_back();
    cell.is_quoted = at < record.size() && record[at] == '"';
    if (!cell.is_quoted) {
      const size_t end = std::min(record.find(delimiter, at), record.size());
      cell.text = record.substr(at, end - at);
      at = end;
      if (cell.text.find('"') != std::string::npos) {
        return false;
      }
    } else {
      for (++at; at < record.size(); ++at) {
        if (record[at] == '"' && (at + 1 >= record.size() || record[at + 1] != '"')) {
          break;
        }
        cell.has_doubled = cell.has_doubled || record[at] == '"';
        at += record[at] == '"' ? 1 : 0;
        cell.text.push_back(record[at]);
      }
      if (at >= record.size() || (++at < record.size() && record[at] != delimiter)) {
        return false;  // The cell has no closing mark, or text follows that mark.
      }
    }
    if (at >= record.size()) {
      return true;
    }
  }
}

// Reads the lines of the next record and counts them. The record may be empty. Without CSV's rules a record is one
// line; with them it ends at the line after which the number of quotation marks is even. Line breaks within the record
// are part of a cell, and are kept as they are in the file. Returns false at the end of the file.
absl::StatusOr<bool> ReadRecord(TextFile& file, bool is_csv, std::string* record, int64_t* num_lines) {
  record->clear();
  std::string_view line_break;  // The line break before the next line of the record.
  for (size_t num_marks = 0;;) {
    bool found = false;
    AMPD_ASSIGN_OR_RETURN(const std::string_view line, file.NextLine(&found));
    if (!found) {
      return !record->empty();
    }
    ++*num_lines;
    record->append(line_break).append(line);
    line_break = file.line_break();
    num_marks += static_cast<size_t>(std::count(line.begin(), line.end(), '"'));
    if (!is_csv || num_marks % 2 == 0 || record->size() > kMaxRecordBytes) {
      return true;
    }
  }
}

// Facts about a table's quotation marks, from which QuotesBetweenTabs determines their meaning.
struct MarksInTable {
  bool fit_csv = true;
  bool fit_plain = true;          // Every line has as many cells as the first.
  bool has_doubled = false;       // Some cell has a doubled mark, as only CSV writes it.
  bool all_texts_quoted = true;   // Every cell that is not a number is quoted.
  int64_t first_quoted_line = 0;  // Line of the first quoted cell; 0: none.
};

bool IsNumber(std::string_view text) { return text.find_first_not_of("0123456789+-.eE") == std::string_view::npos; }

absl::Status LookByCsv(const std::string& path, MarksInTable& marks) {
  AMPD_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(path));
  std::string record;
  std::vector<Cell> cells;
  size_t num_cells = 0;
  int64_t num_lines = 0;
  while (marks.fit_csv) {
    const int64_t first_line = num_lines + 1;
    AMPD_ASSIGN_OR_RETURN(const bool found, ReadRecord(file, /*is_csv=*/true, &record, &num_lines));
    if (!found) {
      break;
    }
    if (record.empty()) {
      continue;
    }
    marks.fit_csv = SplitCsv(record, '\t', &cells) && (num_cells == 0 || cells.size() == num_cells);
    num_cells = cells.size();
    for (const Cell& cell : cells) {
      marks.has_doubled = marks.has_doubled || cell.has_doubled;
      marks.all_texts_quoted = marks.all_texts_quoted && (cell.is_quoted || IsNumber(cell.text));
      marks.first_quoted_line = marks.first_quoted_line == 0 && cell.is_quoted ? first_line : marks.first_quoted_line;
    }
  }
  return absl::OkStatus();
}

absl::Status LookByLines(const std::string& path, MarksInTable& marks) {
  AMPD_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(path));
  int64_t num_tabs = -1;
  std::vector<Cell> cells;
  while (true) {
    bool found = false;
    AMPD_ASSIGN_OR_RETURN(const std::string_view line, file.NextLine(&found));
    if (!found) {
      break;
    }
    if (line.empty()) {
      continue;
    }
    const int64_t count = std::count(line.begin(), line.end(), '\t');
    num_tabs = num_tabs < 0 ? count : num_tabs;
    marks.fit_plain = marks.fit_plain && count == num_tabs;
    marks.has_doubled = marks.has_doubled ||
                        (SplitCsv(line, '\t', &cells) &&
                         std::any_of(cells.begin(), cells.end(), [](const Cell& cell) { return cell.has_doubled; }));
  }
  return absl::OkStatus();
}

// Reads a file whose cells are separated by tabs. Determines whether its quotation marks are those of CSV or a part of
// the text.
absl::StatusOr<Quotes> QuotesBetweenTabs(const std::string& path) {
  MarksInTable marks;
  AMPD_RETURN_IF_ERROR(LookByCsv(path, marks));
  if (marks.fit_csv && marks.first_quoted_line == 0) {
    return Quotes::kNone;  // The file has no quotation marks.
  }
  AMPD_RETURN_IF_ERROR(LookByLines(path, marks));
  const bool is_csv = marks.has_doubled || marks.all_texts_quoted || !marks.fit_plain;
  if (marks.fit_csv && is_csv) {
    return Quotes::kCsv;
  }
  if (!marks.fit_csv && !marks.has_doubled) {
    return Quotes::kNone;
  }
  return absl::DataLossError(absl::StrCat(path, ":", std::max<int64_t>(marks.first_quoted_line, 1),
                                          ": quotation marks stand around a cell, as CSV puts them, and may be a part "
                                          "of the text: say --quotes csv or none"));
}

}  // namespace

absl::StatusOr<TableFormat> FormatOfTable(const std::string& path, Quotes quotes) {
  AMPD_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(path));
  bool found = false;
  AMPD_ASSIGN_OR_RETURN(const std::string_view first, file.NextLine(&found));
  const bool has_tabs = first.find('\t') != std::string_view::npos;
  TableFormat format{.delimiter = has_tabs || first.find(',') == std::string_view::npos ? '\t' : ',', .quotes = quotes};
  if (quotes == Quotes::kAuto) {
    format.quotes = Quotes::kCsv;
    if (format.delimiter == '\t') {
      AMPD_ASSIGN_OR_RETURN(format.quotes, QuotesBetweenTabs(path));
    }
  }
  return format;
}

absl::Status TableReader::Next(std::vector<std::string>* cells) {
  const bool is_csv = format_.quotes == Quotes::kCsv;
  std::string record;
  cells->clear();
  while (record.empty()) {
    line_ = num_lines_ + 1;
    AMPD_ASSIGN_OR_RETURN(const bool found, ReadRecord(*file_, is_csv, &record, &num_lines_));
    if (!found) {
      return absl::OkStatus();
    }
  }
  if (!is_csv) {
    for (const std::string_view cell : Split(record, format_.delimiter)) {
      cells->emplace_back(cell);
    }
    return absl::OkStatus();
  }
  std::vector<Cell> quoted;
  if (!SplitCsv(record, format_.delimiter, &quoted)) {
    return absl::DataLossError(
        "quotation marks are not as CSV has them: around a whole cell, and twice in it for one; --quotes none takes "
        "them "
        "as text");
  }
  for (Cell& cell : quoted) {
    cells->push_back(std::move(cell.text));
  }
  return absl::OkStatus();
}

}  // namespace ampd::text
