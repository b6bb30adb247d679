#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/dtype.h"
#include "graph/graph.h"

// Counts the floating-point operations of a program, from the graph alone.
namespace ampd::graph {

// Returns the floating-point operations (FLOPs) of one forward and backward pass, by the format of the numbers that are
// multiplied. A multiplication and the addition after it are two FLOPs. The rules are the usual ones for the FLOPs of a
// model (PaLM, arXiv:2204.02311, appendix B):
//
//   * Only products count: matrix products, convolutions, attention and recurrent layers.
//   * For attention, all scores count, also those that a mask hides.
//   * For each product of the forward pass, the backward pass has one product per argument that has a gradient. The
//     backward pass of a recurrent layer counts twice as much as its forward pass.
//   * Nodes of a checkpoint segment count once, although they run twice.
//
// `trained`: glob on the names of trained parameters. `on_gpu`: if true, FP8 products are computed in FP8, otherwise in
// fp32. REQUIRES: every op is in the op table or one that ApplyPrecision or WithFusedBatchNorms inserts.
std::map<Dtype, double> CountFlops(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu);

}  // namespace ampd::graph
