#pragma once

#include <string_view>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Pure functions from graph to graph. Precision passes are in precision/.
namespace ampd::graph {

// Removes nodes whose results nothing reads, unless they write parameters or buffers, or memory that a later node or an
// output reads by another name. Inputs, parameters and buffers stay.
Graph WithoutDeadNodes(const Graph& graph);

// Every op that writes its first argument becomes the form that does not, and what read the argument afterwards reads
// the result. INVALID_ARGUMENT (reason ALIASED_WRITE) when that memory is a parameter's or a buffer's, or another
// value that shows it is read afterwards or an output.
absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph);

// The evaluation program of a model that was built for training: dropout is gone, norms use their running statistics.
Graph EvalProgram(const Graph& graph);

// The training program: adds the input "labels" (int64, (B)) and has one output "loss", the mean cross entropy of
// output "logits" (B, classes), a fp32 scalar. Logits (B, T, classes) are those of B * T samples, with as many labels.
// INVALID_ARGUMENT (reason NO_LOGITS) when the model has no such output.
absl::StatusOr<Graph> WithLossHead(const Graph& model);

// What leads to one of the model's outputs, a fp32 scalar, as the training program whose only output that is. Nothing
// else is computed, and running statistics of norms that do not lead there are not written. Inputs, parameters and
// buffers stay. INVALID_ARGUMENT (reason NO_LOSS) when the model has no such output; as WithoutInPlaceOps.
absl::StatusOr<Graph> LossProgram(const Graph& model, std::string_view loss);

// The evaluation program with "labels" added and two scalar outputs: "loss_sum", the sum of the samples' cross
// entropies (fp32), and "num_correct" (int64), so that batches of any size add up. Errors as WithLossHead.
absl::StatusOr<Graph> WithEvalHead(const Graph& model);

}  // namespace ampd::graph
