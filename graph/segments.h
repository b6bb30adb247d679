#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/work.h"

// Activation checkpointing: which nodes run again in the backward pass, so that what they save need not be kept.
namespace ampd::graph {

// Neighbouring nodes of a graph, [begin, end), that either all belong to one checkpoint segment or to none.
struct Segment {
  size_t begin = 0;
  size_t end = 0;
  bool recomputed = false;
  // Of a recomputed one: values from before it that its second run reads, and values of its own that others read.
  std::vector<ValueId> inputs;
  std::vector<ValueId> outputs;
};

// All nodes of a graph in order. Takes time in proportion to their number, which is counted in `work` if that is given.
std::vector<Segment> SegmentsOf(const Graph& graph, Work* work = nullptr);

// The node as it runs a second time: the same result, without writing buffers again.
Node ForSecondRun(Node node);

// Puts the nodes of each module whose path matches one of the globs into a checkpoint segment of its own; of nested
// matches the outermost counts. Ops between a module's nodes that come from no module (casts) belong to it too.
// In-place ops are replaced by their out-of-place forms first, for a segment must find its inputs as they were. To be
// run after the precision pass, so that casts are recomputed too. INVALID_ARGUMENT (reason NO_SUCH_MODULE) when a glob
// matches no module; as WithoutInPlaceOps.
absl::StatusOr<Graph> WithCheckpointSegments(const Graph& graph, const std::vector<std::string>& globs);

}  // namespace ampd::graph
