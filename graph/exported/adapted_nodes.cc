#include "graph/exported/adapted_nodes.h"

#include <cstdint>
#include <string_view>
#include <variant>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "graph/exported/exported_ops.h"

namespace ampd::graph {
namespace {

absl::Status NarrowAsSlice(const ExportedNode& node, Node& added) {
  const auto* const first = std::get_if<int64_t>(added.Find("start"));
  const auto* const count = std::get_if<int64_t>(added.Find("length"));
  int64_t end = 0;
  if (first == nullptr || count == nullptr || *first < 0 || __builtin_add_overflow(*first, *count, &end)) {
    return BadExport(absl::StrCat(Where(node), ": the argument start or length is no number from 0 on"));
  }
  std::erase_if(added.arguments, [](const Argument& argument) { return argument.name == "length"; });
  added.Set("end", end);
  added.op = "aten.slice.Tensor";
  return absl::OkStatus();
}

void AdaptCast(const ExportedGraph& graph, const ExportedNode& node, Node& added) {
  if (const std::string_view copy = CopyMadeBy(graph, node); !copy.empty()) {
    added.op = copy;
    std::erase_if(added.arguments,
                  [](const Argument& argument) { return argument.name != "self" && argument.name != "memory_format"; });
  } else if (AlwaysCopies(node)) {
    added.Set("copy", true);
  }
}

}  // namespace

absl::Status AdaptNode(const ExportedGraph& graph, const ExportedNode& node, const ExportedTypes& types, Node& added) {
  if (added.op == "aten.batch_norm.default") {
    added.Set("cudnn_enabled", true);
  } else if (added.op == "aten.embedding.default") {
    std::erase_if(added.arguments, [](const Argument& argument) { return argument.name == "sparse"; });
  } else if (added.op == "aten.view.default") {
    added.op = "aten.reshape.default";
    for (Argument& argument : added.arguments) {
      argument.name = argument.name == "size" ? "shape" : argument.name;
    }
  } else if (added.op == "aten.bernoulli_.float" && added.Find("p") == nullptr) {
    added.Set("p", 0.5);  // The default of this op. torch.export leaves defaults out, and bernoulli.p has none.
  } else if (added.op == "aten.narrow.default") {
    return NarrowAsSlice(node, added);
  } else if (added.op == kCast) {
    AdaptCast(graph, node, added);
  } else if (added.op == kTypeAs && added.ValueOf("self").has_value()) {
    AMPD_ASSIGN_OR_RETURN(const TensorType type, types.TypeOf(node.tensors[0]));
    added.op = kCast;
    added.arguments = {{"self", *added.ValueOf("self")}, {"dtype", type.dtype}};
  }
  return absl::OkStatus();
}

}  // namespace ampd::graph
