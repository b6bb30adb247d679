#include "client/render/table.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/ascii.h"
#include "client/render/format.h"

namespace ampd::client {

std::string RenderRows(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows,
                       std::vector<int>* widths) {
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
  std::string text;
  for (const auto& row : all) {
    std::string line;
    for (size_t i = 0; i < row.size(); ++i) {
      const bool last = i + 1 == row.size();
      line += row[i] + (last ? "" : std::string((*widths)[i] - DisplayWidth(row[i]) + 2, ' '));
    }
    text += std::string(absl::StripTrailingAsciiWhitespace(line)) + "\n";
  }
  return text;
}

std::string RenderTable(const std::vector<std::string>& heading, const std::vector<std::vector<std::string>>& rows,
                        bool headings) {
  std::vector<int> widths(heading.size());
  return RenderRows(headings ? heading : std::vector<std::string>(), rows, &widths);
}

}  // namespace ampd::client
