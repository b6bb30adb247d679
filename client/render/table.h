#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Returns a table: columns two spaces apart, each as wide as its widest cell. The last column is not padded. Cells may
// contain colours. The headings are in upper case, and omitted if `headings` is false.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings);

}  // namespace ampd::client
