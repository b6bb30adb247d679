#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Columns two spaces apart, each as wide as its widest cell; the last one is not padded. Cells may contain colours. The
// headings are in upper case; `headings` false omits them.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings);

}  // namespace ampd::client
