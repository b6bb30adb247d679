#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

// Questions that the import asks about a program's nodes, before there is a graph.
namespace ampd::graph {

inline constexpr char kCast[] = "aten.to.dtype";
// Imported as a cast to the dtype that the export recorded.
inline constexpr char kTypeAs[] = "aten.type_as.default";

// The op by its name in the op table, "aten.linear.default". Ops that do not differ in a run share one name.
std::string OpOf(const ExportedNode& node);

// For messages: "aten.sort.default of model.pool (net.py:31)".
std::string Where(const ExportedNode& node);

// The message for a node whose op models may not use. Long names from the file are cut.
std::string RefusalOf(const ExportedNode& node);

// Whether the node computes only sizes, or only checks assumptions of the export.
bool IsAboutSizes(const ExportedNode& node);

// Whether the node's result is its first argument, in a run on one device.
bool IsIdentity(const ExportedNode& node);

// Whether the node's result happens to be its first argument: a cast to the dtype that it already has, unless the
// bfloat16 twin gives it a meaning, or dropout of nothing.
bool ChangesNothing(const ExportedGraph& graph, const ExportedNode& node);

// Whether the node broadcasts tensors to the shapes that they already have, as PyTorch's losses do with their elements:
// its results are then the elements of its first argument, a list.
bool BroadcastsNothing(const ExportedGraph& graph, const ExportedNode& node);

// The argument with this name; null if it is not given.
const ExportedArgument* FindArgument(const ExportedNode& node, std::string_view name);
// The name of the tensor that the argument is; empty if it is something else.
std::string TensorOf(const ExportedNode& node, std::string_view name);

// Integer buffers that are read only by a node that adds to them, and the results of those nodes: tensors of the graph.
std::set<std::string> CountersOf(const ExportedProgram& program);

// The counters by which norms count their batches, "bn.num_batches_tracked" beside the running mean "bn.running_mean":
// maps each counter's name to the tensor of that running mean.
std::map<std::string, std::string> NormCountersOf(const ExportedProgram& program);

}  // namespace ampd::graph
