#include "graph/exported/exported_ops.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"

namespace ampd::graph {
namespace {

constexpr absl::string_view kOpPrefix = "torch.ops.";
constexpr int64_t kPreserveFormat = 1;  // at::MemoryFormat::Preserve

// The number of reads of each tensor.
std::map<std::string, int> CountReaders(const ExportedGraph& graph) {
  std::map<std::string, int> count;
  for (const ExportedNode& node : graph.nodes) {
    for (const auto& [name, argument] : node.arguments) {
      if (const auto* one = std::get_if<TensorName>(&argument)) {
        ++count[one->name];
      } else if (const auto* list = std::get_if<std::vector<std::optional<TensorName>>>(&argument)) {
        for (const auto& entry : *list) {
          count[entry.has_value() ? entry->name : ""] += 1;
        }
      }
    }
  }
  for (const auto& output : graph.outputs) {
    count[output.value_or("")] += 1;
  }
  return count;
}

// Whether the node is a cast to the dtype that its argument already has, and the twin does not list the cast.
bool KeepsDtype(const ExportedGraph& graph, const ExportedNode& node) {
  const std::string op = OpOf(node);
  if ((op != kCast && op != kTypeAs) || node.named_dtype != NamedDtype::kUnknown) {
    return false;
  }
  const auto before = graph.tensors.find(TensorOf(node, "self"));
  const auto after = node.tensors.empty() ? graph.tensors.end() : graph.tensors.find(node.tensors[0]);
  return before != graph.tensors.end() && after != graph.tensors.end() && before->second.dtype == after->second.dtype;
}

}  // namespace

std::string OpOf(const ExportedNode& node) {
  static const auto* const same = new std::map<std::string, std::string>{
      {"aten._to_copy.default", "aten.to.dtype"},
      {"aten.detach_.default", "aten.detach.default"},
      {"aten.to.device", "aten.to.dtype"},
      {"aten.to.dtype_layout", "aten.to.dtype"},
  };
  std::string op(absl::StripPrefix(node.target, kOpPrefix));
  const auto found = same->find(op);
  return found == same->end() ? op : found->second;
}

std::string Where(const ExportedNode& node) {
  return absl::StrCat(OpOf(node), node.module_path.empty() ? "" : " of ", node.module_path,
                      node.source.empty() ? "" : absl::StrCat(" (", node.source, ")"));
}

std::string RefusalOf(const ExportedNode& node) {
  return std::string(BadExport(absl::StrCat(Where(node), " is not an op that models may use")).message());
}

bool IsAboutSizes(const ExportedNode& node) {
  static const auto* const ops = new std::set<std::string>{"_operator.add",
                                                           "_operator.eq",
                                                           "_operator.floordiv",
                                                           "_operator.ge",
                                                           "_operator.gt",
                                                           "_operator.le",
                                                           "_operator.lt",
                                                           "_operator.mod",
                                                           "_operator.mul",
                                                           "_operator.ne",
                                                           "_operator.neg",
                                                           "_operator.sub",
                                                           "aten._assert_scalar.default",
                                                           "aten._assert_tensor_metadata.default",
                                                           "aten.sym_constrain_range.default",
                                                           "aten.sym_constrain_range_for_size.default",
                                                           "aten.sym_numel.default",
                                                           "aten.sym_size.int",
                                                           "torch.sym_max",
                                                           "torch.sym_min",
                                                           "torch.sym_not"};
  return node.tensors.empty() && ops->contains(OpOf(node));
}

bool IsIdentity(const ExportedNode& node) {
  const std::string op = OpOf(node);
  return op == "aten.alias.default" || op == "aten.lift_fresh_copy.default";
}

bool ChangesNothing(const ExportedGraph& graph, const ExportedNode& node) {
  const std::string op = OpOf(node);
  if (op == "aten.dropout.default" || op == "aten.dropout_.default") {
    const ExportedArgument* const p = FindArgument(node, "p");
    const auto* const real = p == nullptr ? nullptr : std::get_if<double>(p);
    return real != nullptr && *real == 0;
  }
  return KeepsDtype(graph, node) && CopyMadeBy(graph, node).empty();
}

bool AlwaysCopies(const ExportedNode& node) {
  const ExportedArgument* const copy = OpOf(node) == kCast ? FindArgument(node, "copy") : nullptr;
  const bool* const copies = copy == nullptr ? nullptr : std::get_if<bool>(copy);
  return node.target == "torch.ops.aten._to_copy.default" || (copies != nullptr && *copies);
}

std::string_view CopyMadeBy(const ExportedGraph& graph, const ExportedNode& node) {
  if (OpOf(node) != kCast || !KeepsDtype(graph, node)) {
    return "";
  }
  const ExportedArgument* const given = FindArgument(node, "memory_format");
  const auto* const format = given == nullptr ? nullptr : std::get_if<MemoryFormat>(given);
  const bool orders = format != nullptr && format->number != kPreserveFormat;
  return AlwaysCopies(node) ? "aten.clone.default" : orders ? "aten.contiguous.default" : "";
}

bool BroadcastsNothing(const ExportedGraph& graph, const ExportedNode& node) {
  const ExportedArgument* const given = FindArgument(node, "tensors");
  const auto* const list = given == nullptr ? nullptr : std::get_if<std::vector<std::optional<TensorName>>>(given);
  if (OpOf(node) != "aten.broadcast_tensors.default" || list == nullptr) {
    return false;
  }
  return std::equal(list->begin(), list->end(), node.tensors.begin(), node.tensors.end(),
                    [&graph](const std::optional<TensorName>& before, const std::string& after) {
                      const auto from = graph.tensors.find(before.has_value() ? before->name : "");
                      const auto to = graph.tensors.find(after);
                      return from != graph.tensors.end() && to != graph.tensors.end() &&
                             from->second.sizes == to->second.sizes;
                    });
}

const ExportedArgument* FindArgument(const ExportedNode& node, std::string_view name) {
  for (const auto& [key, argument] : node.arguments) {
    if (key == name) {
      return &argument;
    }
  }
  return nullptr;
}

std::string TensorOf(const ExportedNode& node, std::string_view name) {
  const ExportedArgument* const argument = FindArgument(node, name);
  const auto* const tensor = argument == nullptr ? nullptr : std::get_if<TensorName>(argument);
  return tensor == nullptr ? "" : tensor->name;
}

std::set<std::string> CountersOf(const ExportedProgram& program) {
  std::set<std::string> buffers;
  for (const ExportedInput& input : program.inputs) {
    const auto tensor = program.graph.tensors.find(input.tensor);
    if (input.kind == ExportedInput::Kind::kBuffer && tensor != program.graph.tensors.end() &&
        !IsFloatingPoint(tensor->second.dtype)) {
      buffers.insert(input.tensor);
    }
  }
  const std::map<std::string, int> readers = CountReaders(program.graph);
  // If the program calls a module several times, the counts of a buffer form a chain: each call adds to the count that
  // the previous call returned.
  std::map<std::string, std::vector<std::string>> counts;  // Maps the last count of a chain to all its counts.
  for (const std::string& buffer : buffers) {
    counts[buffer] = {buffer};
  }
  for (const ExportedNode& node : program.graph.nodes) {
    const auto before = counts.find(TensorOf(node, "self"));
    if (OpOf(node) == "aten.add_.Tensor" && before != counts.end() && readers.at(before->first) == 1 &&
        node.tensors.size() == 1) {
      auto next = counts.extract(before);
      next.mapped().push_back(node.tensors[0]);
      next.key() = node.tensors[0];
      counts.insert(std::move(next));
    }
  }
  std::set<std::string> counters;
  for (const auto& [last, all] : counts) {
    if (all.size() > 1 && !readers.contains(last)) {
      counters.insert(all.begin(), all.end());
    }
  }
  return counters;
}

std::map<std::string, std::string> NormCountersOf(const ExportedProgram& program) {
  std::map<std::string, std::string> tensors;  // The buffers' tensors, by the buffers' names.
  for (const ExportedInput& input : program.inputs) {
    if (input.kind == ExportedInput::Kind::kBuffer) {
      tensors[input.name] = input.tensor;
    }
  }
  std::set<std::string> means;
  for (const ExportedNode& node : program.graph.nodes) {
    if (OpOf(node) == "aten.batch_norm.default") {
      means.insert(TensorOf(node, "running_mean"));
    }
  }
  const std::set<std::string> counters = CountersOf(program);
  std::map<std::string, std::string> found;
  for (const auto& [name, tensor] : tensors) {
    absl::string_view module = name;
    if (!absl::ConsumeSuffix(&module, "running_mean") || !means.contains(tensor)) {
      continue;
    }
    const std::string counter = absl::StrCat(module, "num_batches_tracked");
    const auto counted = tensors.find(counter);
    if (counted == tensors.end() || !counters.contains(counted->second)) {
      continue;
    }
    const ExportedTensor& type = program.graph.tensors.at(counted->second);
    if (type.dtype == Dtype::kInt64 && type.sizes.empty()) {
      found[counter] = tensor;
    }
  }
  return found;
}

}  // namespace ampd::graph
