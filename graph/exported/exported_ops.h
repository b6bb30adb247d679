#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

// Facts about the nodes of an exported program, which the import needs before there is a graph.
namespace ampd::graph {

inline constexpr char kCast[] = "aten.to.dtype";
// An op that is imported as a cast to the dtype that the export recorded.
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

// Whether the node returns its first argument unchanged in this graph: it is dropout with probability 0, or a cast to
// the dtype that the argument already has. A cast to which the model's bfloat16 twin gives a meaning (exported_twin.h)
// does not count.
bool ChangesNothing(const ExportedGraph& graph, const ExportedNode& node);

// Whether the node broadcasts tensors to the shapes that they already have, as PyTorch's losses do with their elements:
// its results are then the elements of its first argument, a list.
bool BroadcastsNothing(const ExportedGraph& graph, const ExportedNode& node);

// The argument with this name; null if it is not given.
const ExportedArgument* FindArgument(const ExportedNode& node, std::string_view name);
// The name of the tensor given as this argument; empty if the argument is something else.
std::string TensorOf(const ExportedNode& node, std::string_view name);

// The names of the tensors that only count: integer buffers that no node reads except one that adds to them, and the
// results of those nodes.
std::set<std::string> CountersOf(const ExportedProgram& program);

// The counters by which norms count their batches, "bn.num_batches_tracked" beside the running mean "bn.running_mean":
// maps each counter's name to the tensor of that running mean.
std::map<std::string, std::string> NormCountersOf(const ExportedProgram& program);

}  // namespace ampd::graph
