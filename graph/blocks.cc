#include "graph/blocks.h"

#include <string_view>
#include <unordered_set>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ampd::graph {
namespace {

bool IsNumber(const std::string& component) {
  return !component.empty() && component.find_first_not_of("0123456789") == std::string::npos;
}

}  // namespace

std::string BlockOf(const std::string& module_path) {
  const std::vector<std::string> components = absl::StrSplit(module_path, '.');
  std::string block;
  for (const std::string& component : components) {
    absl::StrAppend(&block, block.empty() ? "" : ".", component);
    if (IsNumber(component)) {
      return block;
    }
  }
  return "";
}

std::vector<std::string> BlocksOf(const Graph& graph) {
  std::vector<std::string> blocks;
  std::unordered_set<std::string> known;
  for (const Node& node : graph.nodes()) {
    std::string block = BlockOf(node.module_path);
    if (!block.empty() && known.insert(block).second) {
      blocks.push_back(std::move(block));
    }
  }
  return blocks;
}

}  // namespace ampd::graph
