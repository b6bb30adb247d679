#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns a table: columns two spaces apart, each as wide as its widest cell. The last column is not padded. Cells may
// contain colours; anything else in a cell that could control a terminal or break the line is escaped. The headings are
// in upper case, and omitted if `headings` is false.
//
// If `max_width` is not 0, no line has more columns. The widest columns become narrower: a cell of several words is
// broken into lines, and a word that is too long ends with "..". If there are too many columns for one line, a row has
// several, each after the first indented; those in which there is nothing but "-" are left out.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings, int max_width = 0);

// Returns the rows of a table that is printed in parts. `widths` holds the widths of the columns so far; wider cells
// widen them. Empty headings are not printed.
std::string RenderRows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       std::vector<int>* widths, int max_width = 0);

}  // namespace ampd::client
