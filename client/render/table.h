#pragma once

#include <string>
#include <vector>

namespace ampd::client {

// Columns two spaces apart, as wide as their widest cell, the last one open; cells may hold colours. Upper-case
// headings unless `headings` is false.
std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings);

}  // namespace ampd::client
