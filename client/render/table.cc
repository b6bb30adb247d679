#include "client/render/table.h"

#include <algorithm>
#include <iterator>
#include <numeric>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/str_split.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr int kGap = 2;
constexpr int kIndent = 4;  // Indentation of the second and further lines of a row.

// The columns that stand on one line of a row, because not all columns fit on one line.
struct Columns {
  size_t begin = 0;
  size_t end = 0;
  int indent = 0;
};

// Returns the width of the longest part of a cell that must not be split: a word, or a whole short cell such as "39.8
// MiB".
int LongestPart(const std::string& cell) {
  constexpr int kShort = 12;
  if (DisplayWidth(cell) <= kShort) {
    return DisplayWidth(cell);
  }
  int longest = 0;
  for (const absl::string_view word : absl::StrSplit(cell, ' ')) {
    longest = std::max(longest, DisplayWidth({word.data(), word.size()}));
  }
  return longest;
}

// Returns the minimum widths of the columns: the longest part of a column's cells, but at most 16. For the first column
// it is at most 40, because that column has the names of the rows.
std::vector<int> LeastWidths(const std::vector<std::vector<std::string>>& rows) {
  constexpr int kMost = 16;
  constexpr int kMostOfFirst = 40;
  std::vector<int> least;
  for (const std::vector<std::string>& row : rows) {
    least.resize(std::max(least.size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      least[i] = std::max(least[i], std::min(LongestPart(row[i]), i == 0 ? kMostOfFirst : kMost));
    }
  }
  return least;
}

// Distributes the columns over as few lines as possible, so that every column has at least its minimum width.
std::vector<Columns> LinesOf(const std::vector<int>& least, int max_width) {
  std::vector<Columns> lines = {{0, 0, 0}};
  int used = 0;
  for (size_t i = 0; i < least.size(); ++i) {
    const bool is_first = lines.back().begin == i;
    const int more = least[i] + (is_first ? 0 : kGap);
    if (!is_first && max_width > 0 && used + more > max_width) {
      lines.push_back({i, i, kIndent});
      used = kIndent + least[i];
    } else {
      used += more;
    }
    lines.back().end = i + 1;
  }
  return lines;
}

// Makes the widest columns of a line narrower until the line fits.
void Narrow(const Columns& line, const std::vector<int>& least, int max_width, std::vector<int>* widths) {
  const int gaps = kGap * static_cast<int>(line.end - line.begin - 1);
  const auto begin = widths->begin() + static_cast<ptrdiff_t>(line.begin);
  const auto end = widths->begin() + static_cast<ptrdiff_t>(line.end);
  while (std::accumulate(begin, end, line.indent + gaps) > max_width) {
    auto widest = end;
    for (auto width = begin; width != end; ++width) {
      const bool can_shrink = *width > least[static_cast<size_t>(width - widths->begin())];
      widest = can_shrink && (widest == end || *width >= *widest) ? width : widest;
    }
    if (widest == end) {
      return;
    }
    --*widest;
  }
}

// Splits a cell into lines of at most `width` columns.
std::vector<std::string> CellLines(const std::string& cell, int width) {
  const size_t lead = std::min(cell.find_first_not_of(' '), cell.size());
  const bool is_one_word = cell.find(' ', lead) == std::string::npos;
  if (DisplayWidth(cell) <= width || is_one_word || cell.find('\x1b') != std::string::npos) {
    return {DisplayWidth(cell) <= width ? cell : ClipTo(cell, width)};
  }
  std::vector<std::string> lines = {""};
  for (size_t at = 0; at < cell.size();) {
    const size_t begin = std::min(cell.find_first_not_of(' ', at), cell.size());
    if (begin == cell.size()) {
      break;
    }
    const size_t end = std::min(cell.find(' ', begin), cell.size());
    const std::string word = ClipTo(std::string_view(cell).substr(begin, end - begin), width);
    const std::string spaces(std::min(begin - at, static_cast<size_t>(width - DisplayWidth(word))), ' ');
    if (!lines.back().empty() && DisplayWidth(lines.back() + spaces + word) > width) {
      lines.push_back(word);
    } else {
      lines.back() += (lines.size() == 1 || !lines.back().empty() ? spaces : "") + word;
    }
    at = end;
  }
  return lines;
}

// Returns the text of the cells of a row that are printed side by side. If one of them is split, because it is too
// wide, the text has several lines.
std::string LineText(const std::vector<std::string>& row, const Columns& columns, const std::vector<int>& widths,
                     bool is_fitted) {
  std::vector<std::vector<std::string>> cells;
  size_t num_lines = 1;
  for (size_t i = columns.begin; i < std::min(columns.end, row.size()); ++i) {
    cells.push_back(is_fitted ? CellLines(row[i], widths[i]) : std::vector<std::string>{row[i]});
    num_lines = std::max(num_lines, cells.back().size());
  }
  std::string text;
  for (size_t n = 0; n < num_lines; ++n) {
    std::string line(columns.indent, ' ');
    for (size_t i = 0; i < cells.size(); ++i) {
      const std::string part = n < cells[i].size() ? cells[i][n] : "";
      const bool is_last = i + 1 == cells.size();
      line += part + (is_last ? "" : std::string(widths[columns.begin + i] - DisplayWidth(part) + kGap, ' '));
    }
    text += std::string(absl::StripTrailingAsciiWhitespace(line)) + "\n";
  }
  return text;
}

// Returns whether one of the line's cells is neither empty nor kNothing.
bool HasText(const std::vector<std::string>& row, const Columns& columns) {
  const auto end = row.begin() + static_cast<ptrdiff_t>(std::min(columns.end, row.size()));
  const auto begin = row.begin() + static_cast<ptrdiff_t>(std::min(columns.begin, row.size()));
  return std::any_of(begin, end, [](const std::string& cell) { return !cell.empty() && cell != kNothing; });
}

}  // namespace

std::string RenderRows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       std::vector<int>* widths, int max_width) {
  std::vector<std::vector<std::string>> all;
  if (!headings.empty()) {
    all.push_back(headings);
  }
  for (const std::vector<std::string>& row : rows) {
    std::vector<std::string>& cells = all.emplace_back();
    std::transform(row.begin(), row.end(), std::back_inserter(cells), ColouredLine);
  }
  for (const auto& row : all) {
    widths->resize(std::max(widths->size(), row.size()));
    for (size_t i = 0; i < row.size(); ++i) {
      (*widths)[i] = std::max((*widths)[i], DisplayWidth(row[i]));
    }
  }
  std::vector<int> least = LeastWidths(all);
  least.resize(widths->size());
  std::vector<int> fitted = *widths;
  const std::vector<Columns> lines = LinesOf(least, max_width);
  for (const Columns& line : lines) {
    if (max_width > 0) {
      Narrow(line, least, max_width, &fitted);
    }
  }
  std::string text;
  for (const auto& row : all) {
    for (const Columns& line : lines) {
      text += line.begin == 0 || HasText(row, line) ? LineText(row, line, fitted, max_width > 0) : "";
    }
  }
  return text;
}

std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings, int max_width) {
  std::vector<int> widths(heading.size());
  return RenderRows(headings ? heading : std::vector<std::string>(), rows, &widths, max_width);
}

}  // namespace ampd::client
