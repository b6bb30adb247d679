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

// Returns the name of the node's op in the op table, "aten.linear.default". Variants that compute the same in a run get
// one name: "aten.to.device" becomes "aten.to.dtype".
std::string OpOf(const ExportedNode& node);

// Describes the node for messages: "aten.sort.default of model.pool (net.py:31)".
std::string Where(const ExportedNode& node);

// The message for a node with an op that is not allowed in models. Long names from the file are cut.
std::string RefusalOf(const ExportedNode& node);

// Whether the node only computes sizes, or only checks assumptions of the export.
bool IsAboutSizes(const ExportedNode& node);

// Whether the node's result is its first argument, in a run on one device.
bool IsIdentity(const ExportedNode& node);

// Whether the node returns its first argument in this graph, the same memory with the same elements: it is dropout with
// probability 0, or a cast to the dtype that the argument already has. False for a cast that the model's bfloat16 twin
// lists (exported_twin.h), and for a cast that copies or may copy (CopyMadeBy).
bool ChangesNothing(const ExportedGraph& graph, const ExportedNode& node);

// Whether the node is a cast that returns new memory in every case: with copy=True, or _to_copy.
bool AlwaysCopies(const ExportedNode& node);

// The op that computes the same as a cast to the dtype that its argument already has: clone if the cast always copies,
// or contiguous if it copies for a memory format that the argument may not have. Empty for a cast that copies nothing,
// for a cast that the model's bfloat16 twin lists, and for any other node.
std::string_view CopyMadeBy(const ExportedGraph& graph, const ExportedNode& node);

// Whether the node broadcasts several tensors that already have the same shape, as PyTorch's losses do. Then the node's
// results are the tensors of its first argument, which is a list.
bool BroadcastsNothing(const ExportedGraph& graph, const ExportedNode& node);

// The argument with this name; null if it is not given.
const ExportedArgument* FindArgument(const ExportedNode& node, std::string_view name);
// The name of the tensor given as this argument; empty if the argument is something else.
std::string TensorOf(const ExportedNode& node, std::string_view name);

// The names of the tensors that are counters. A counter is an integer buffer whose only reader is a node that adds to
// it. The results of such nodes are counters too.
std::set<std::string> CountersOf(const ExportedProgram& program);

// Maps the name of each norm's batch counter, "bn.num_batches_tracked", to the tensor of the running mean beside it,
// "bn.running_mean".
std::map<std::string, std::string> NormCountersOf(const ExportedProgram& program);

}  // namespace ampd::graph
