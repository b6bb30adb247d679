#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns a table whose columns are two spaces apart and as wide as their widest cells. The last column is not padded.
// Cells may contain colours; anything else in a cell that could control a terminal or break the line is escaped. The
// headings are in upper case, and omitted if `headings` is false.
//
// If `max_width` is not 0, no line is wider. To achieve this, the widest columns become narrower: cells are split into
// lines between words, and a word that is too long is truncated and ends with "..". If the columns still do not fit on
// one line, each row takes several lines. All its lines after the first are indented; those in which every cell is "-"
// are omitted.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings, int max_width = 0);

// Returns the rows of a table that is printed in parts. `widths` holds the widths of the columns so far, and grows if
// this part has wider cells. Empty headings are not printed.
std::string RenderRows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       std::vector<int>* widths, int max_width = 0);

}  // namespace ampd::client
