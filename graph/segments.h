#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/work.h"

// Activation checkpointing: nodes that run again in the backward pass, so that the tensors they save need not be kept.
namespace ampd::graph {

// A range of nodes of a graph, [begin, end). Either all of them belong to the same checkpoint segment, or none of them
// belongs to any.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  bool recomputed = false;
  // For a recomputed segment: `inputs` are the values that its second run reads and that were made before the segment.
  // `outputs` are the values of the segment that are read outside it.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

// Splits all nodes of a graph, in order, into segments. Takes time in proportion to their number, which is counted in
// `work` if that is given.
std::vector<Segment> SegmentsOf(const Graph& graph, Work* work = nullptr);

// The node as it runs the second time, in the backward pass: with the same result, but without writing buffers again.
Node ForSecondRun(Node node);

// Puts the nodes of each module whose path matches one of the globs into its own checkpoint segment. If a matched
// module contains another one, both belong to the segment of the outer module. Ops without a module (casts) between a
// module's nodes belong to its segment too. In-place ops are replaced by their out-of-place forms first, because a
// segment must find its inputs unchanged. Run this pass after the precision pass, so that casts are recomputed too.
// Returns INVALID_ARGUMENT (reason NO_SUCH_MODULE) if a glob matches no module, and the errors of WithoutInPlaceOps.
absl::StatusOr<Graph> WithCheckpointSegments(const Graph& graph, const std::vector<std::string>& globs);

}  // namespace ampd::graph
