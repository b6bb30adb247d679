#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Pure functions from graph to graph. Precision passes are in precision/.
namespace ampd::graph {

// Removes nodes whose results nothing reads, unless they write parameters or buffers, or memory that a later node or an
// output reads by another name. Inputs, parameters and buffers stay.
Graph WithoutDeadNodes(const Graph& graph);

// Every op that writes its first argument becomes the form that does not, and what read the argument afterwards reads
// the result. A write to a slice or a selected row becomes one whose result is put into the whole (aten.slice_scatter,
// aten.select_scatter), for what reads that afterwards. INVALID_ARGUMENT (reason ALIASED_WRITE) when that memory is a
// parameter's or a buffer's, or yet another value that shows it is read afterwards or an output.
absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph);

// A copy of "self" that a program may write in place. It is for passes, and no op that runs.
inline constexpr char kFreshCopy[] = "aten.lift_fresh_copy.default";

// Each kFreshCopy becomes what it is a copy of. REQUIRES: nothing writes in place (WithoutInPlaceOps).
Graph WithoutFreshCopies(const Graph& graph);

// The evaluation program of a model that was built for training: dropout is gone, norms use their running statistics.
Graph EvalProgram(const Graph& graph);

// The training program, by the model's head (graph/heads.h): adds the input "labels" and has one output "loss", a fp32
// scalar, the mean over all labels.
//   logits        (B, classes): cross entropy; labels int64, (B). Logits (B, T, classes) are those of B * T samples,
//   with
//                 as many labels.
//   predictions   (B, ...): squared error; labels fp32, of the same shape
//   label_logits  (B, classes): binary cross entropy; labels fp32, of the same shape, each 0 or 1
//   loss          as it is; labels are the model's own input, where it has one
// INVALID_ARGUMENT (reason NO_HEAD) when the model has none of these outputs.
absl::StatusOr<Graph> WithLossHead(const Graph& model);

// What leads to one of the model's outputs, a fp32 scalar, as the training program whose only output that is. Nothing
// else is computed, and running statistics of norms that do not lead there are not written; of a norm that leads to a
// later output too they are written in the last one's program alone, so that a step, which computes it in each, counts
// it once, as the model does. Inputs, parameters and buffers stay. INVALID_ARGUMENT (reason NO_LOSS) when the model has
// no such output; as WithoutInPlaceOps.
absl::StatusOr<Graph> LossProgram(const Graph& model, std::string_view loss);

// The output of a model with a loss of its own that says how many labels that loss is the mean of.
inline constexpr char kLabelCount[] = "label_count";

// What leads from the model's inputs to its output kLabelCount, with those of its buffers that are needed for it and
// no parameters; nothing when the model has no such output. INVALID_ARGUMENT (reason BAD_LABEL_COUNT) where the output
// is no scalar of numbers, or what it depends on is more than inputs and constants: a parameter, a running statistic or
// a random number.
absl::StatusOr<std::optional<Graph>> LabelCountProgram(const Graph& model);

// The evaluation program with "labels" added. Its outputs are, of what a model with the head has:
//   "loss_sum"     the sum over all labels of what the loss is the mean of, a fp32 scalar, so that batches of any size
//                  add up; instead of it
//   "loss"         the mean over the batch, of a model that makes its loss itself
//   "num_correct"  how many labels were predicted, an int64 scalar: where the head has an accuracy
//   "predicted"    the class of each sample, int64 (B); of label_logits whether a logit is above 0, bool (B, classes):
//                  where the head predicts classes
//   "logits"       those of each sample, (B, classes), for what is told of the order of classes: where a sample has one
//                  class
// Errors as WithLossHead.
absl::StatusOr<Graph> WithEvalHead(const Graph& model);

}  // namespace ampd::graph
