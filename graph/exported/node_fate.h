#pragma once

#include <set>
#include <string>

#include "graph/exported/exported_program.h"

namespace ampd::graph {

// What the import does with a node.
enum class NodeFate {
  kRuns,
  kSkipped,  // The node computes or asserts sizes, or it counts batches in a counter that nothing reads.
  kPassed,   // The node returns its first argument or, if this is a list, the list's elements. It is left out.
  kRefused,  // Models may not use the node's op.
};

// `counters`: CountersOf(program) (graph/exported/exported_ops.h).
NodeFate FateOf(const ExportedProgram& program, const std::set<std::string>& counters, const ExportedNode& node);

}  // namespace ampd::graph
