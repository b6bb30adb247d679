#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns a table: columns two spaces apart, each as wide as its widest cell. The last column is not padded. Cells may
// contain colours; anything else in a cell that could control a terminal or break the line is escaped. The headings are
// in upper case, and omitted if `headings` is false.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings);

// Returns the rows of a table that is printed in parts. `widths` holds the widths of the columns so far; wider cells
// widen them. Empty headings are not printed.
std::string RenderRows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       std::vector<int>* widths);

}  // namespace ampd::client
