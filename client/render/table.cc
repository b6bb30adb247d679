#include "client/render/table.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "client/render/format.h"

namespace ampd::client {

std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings) {
  std::vector<std::vector<std::string>> all;
  if (headings) {
    all.push_back(heading);
  }
  all.insert(all.end(), rows.begin(), rows.end());
  std::vector<int> widths(heading.size());
  for (const auto& row : all) {
    for (size_t i = 0; i < row.size(); ++i) {
      widths[i] = std::max(widths[i], DisplayWidth(row[i]));
    }
  }
  std::string text;
  for (const auto& row : all) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      line += row[i] + (last ? "" : std::string(widths[i] - DisplayWidth(row[i]) + 2, ' '));
    }
    text += std::string(absl::StripTrailingAsciiWhitespace(line)) + "\n";
  }
  return text;
}

}  // namespace ampd::client
