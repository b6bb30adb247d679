#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "graph/dtype.h"
#include "graph/graph.h"

// Counts the floating-point operations of a program, from the graph alone.
namespace ampd::graph {

// Returns the floating-point operations (FLOPs) of one forward and backward pass, by the format of the numbers that are
// multiplied. A multiplication and the addition after it are two FLOPs. As is usual for the FLOPs of a model (PaLM,
// arXiv:2204.02311, appendix B):
//
//   * Only products count: matrix products, convolutions, attention and recurrent layers.
//   * Attention counts all its scores, also those that a mask hides.
//   * The backward pass has one product for each gradient that the forward pass's product has an argument for. A
//     recurrent layer counts twice its forward pass.
//   * Nodes of a checkpoint segment count once, although they run twice.
//
// `trained`: glob on the names of trained parameters. `on_gpu`: FP8 products are computed in FP8, and otherwise in
// fp32. REQUIRES: as OpMemory.
std::map<Dtype, double> CountFlops(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu);

}  // namespace ampd::graph
