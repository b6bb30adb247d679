#pragma once

#include <map>
#include <set>
#include <string>
#include <string_view>

#include "graph/exported/exported_program.h"

// What the import asks of a program's nodes, before there is a graph.
namespace ampd::graph {

inline constexpr char kCast[] = "aten.to.dtype";
// Becomes a cast to the dtype that the export saw.
inline constexpr char kTypeAs[] = "aten.type_as.default";

// The op by the table's name, "aten.linear.default". Ops that differ only in what a run has no use for have one name.
std::string OpOf(const ExportedNode& node);

// For messages: "aten.sort.default of model.pool (net.py:31)".
std::string Where(const ExportedNode& node);

// The message of a node whose op models may not use; of names from outside no more than fits into one.
std::string RefusalOf(const ExportedNode& node);

// Whether it computes nothing but sizes, or only checks what the export took for granted.
bool IsAboutSizes(const ExportedNode& node);

// Whether its result is its first argument, as far as a run on one device can tell.
bool IsIdentity(const ExportedNode& node);

// Whether its result is its first argument where that could be another: a cast to the dtype that is there and of which
// the bfloat16 twin tells nothing, and dropout of nothing.
bool ChangesNothing(const ExportedGraph& graph, const ExportedNode& node);

// Whether it broadcasts tensors to the shapes that they have, as PyTorch's losses do of elements: its results are those
// of its first argument, a list.
bool BroadcastsNothing(const ExportedGraph& graph, const ExportedNode& node);

// The argument of that name; null when it is not given.
const ExportedArgument* FindArgument(const ExportedNode& node, std::string_view name);
// Its tensor; empty when it is something else.
std::string TensorOf(const ExportedNode& node, std::string_view name);

// Buffers of whole numbers whose only reader adds to them, and what that gives: tensors of the graph.
std::set<std::string> CountersOf(const ExportedProgram& program);

// Of those buffers the ones by which norms count their batches, "bn.num_batches_tracked" beside the running mean
// "bn.running_mean": by their names, the tensor of that mean.
std::map<std::string, std::string> NormCountersOf(const ExportedProgram& program);

}  // namespace ampd::graph
