#pragma once

#include <optional>
#include <string_view>

#include "absl/status/statusor.h"
#include "graph/graph.h"

// Pure functions from graph to graph. Precision passes are in precision/.
namespace ampd::graph {

// Removes nodes whose results nothing reads, unless they write parameters, buffers, or memory that a later node or an
// output reads through another value. Inputs, parameters and buffers stay.
Graph WithoutDeadNodes(const Graph& graph);

// Replaces every in-place op by its out-of-place form; later readers of the written argument read the result. A write
// to a slice or a selected row of a tensor becomes two ops: the out-of-place op, and aten.slice_scatter or
// aten.select_scatter, which inserts its result into a copy of the tensor. Later readers of the tensor read this copy.
// INVALID_ARGUMENT (reason ALIASED_WRITE) if the written memory belongs to a parameter or a buffer, or if another value
// that uses the same memory is an output or is read later.
absl::StatusOr<Graph> WithoutInPlaceOps(const Graph& graph);

// An op that copies "self", so that a program may write the copy in place. Only passes see this op; it never runs.
inline constexpr char kFreshCopy[] = "aten.lift_fresh_copy.default";

// Replaces each kFreshCopy by its source. Casts copy only where they change the dtype, except those of parameters and
// buffers, which a norm may write later. REQUIRES: there are no in-place ops (WithoutInPlaceOps).
Graph WithoutFreshCopies(const Graph& graph);

// The evaluation program of a model that was built for training: it has no dropout, and its norms use their running
// statistics. Not for a model that brings an evaluation program of its own (OwnEvalProgram).
Graph EvalProgram(const Graph& graph);

// The program that evaluates a model which brings an evaluation program of its own, `graph`. It returns the same
// results as `graph`: dropout that drops something stays, and norms that use the statistics of the batch do so. But it
// does not update running statistics, because an evaluation must not change the state of training. Dropout that drops
// nothing is left out.
Graph OwnEvalProgram(const Graph& graph);

// The training program: the model with the loss of its head (graph/heads.h). Adds the input "labels". The only output
// is "loss", an fp32 scalar, the mean over all labels. By the model's output, the loss is:
//   logits        (B, classes): cross entropy; labels int64, (B). Logits (B, T, classes) count as B * T samples with
//                 as many labels.
//   predictions   (B, ...): squared error; labels fp32, of the same shape
//   label_logits  (B, classes): binary cross entropy; labels fp32, of the same shape, each 0 or 1
//   loss          unchanged; labels are the model's own input, if it has one
// INVALID_ARGUMENT (reason NO_HEAD) if the model has none of these outputs.
absl::StatusOr<Graph> WithLossHead(const Graph& model);

// The training program for one of the model's losses, an fp32 scalar output. It has only the nodes that lead to this
// loss, and the loss is its only output. Norms that do not lead to the loss are not in the program. A norm that leads
// to several losses writes its statistics only in the program of the last of these losses: a step runs the norm in each
// program, but the model updates the statistics once. Inputs, parameters and buffers stay. Returns INVALID_ARGUMENT
// (reason NO_LOSS) if the model has no such output, and the errors of WithoutInPlaceOps.
absl::StatusOr<Graph> LossProgram(const Graph& model, std::string_view loss);

// The name of the output by which a model with its own loss says over how many labels this loss is a mean.
inline constexpr char kLabelCount[] = "label_count";

// The program that computes the output kLabelCount from the model's inputs, with the buffers that it needs and no
// parameters; nothing if the model has no such output. INVALID_ARGUMENT (reason BAD_LABEL_COUNT) if the output is not a
// scalar of numbers, or depends on more than inputs and constants: a parameter, a running statistic or a random number.
absl::StatusOr<std::optional<Graph>> LabelCountProgram(const Graph& model);

// Adds the input "labels" to `evaluation`, which is EvalProgram or OwnEvalProgram of a model. The outputs depend on the
// model's head:
//   "loss_sum"     the sum over all labels of the terms whose mean is the loss, an fp32 scalar; the sums of several
//                  batches can be added, whatever the sizes of the batches
//   "loss"         instead of "loss_sum", for a model with its own loss: the mean over the batch
//   "num_correct"  if the head has an accuracy: the number of correctly predicted labels, an int64 scalar
//   "predicted"    if the head predicts classes: the class of each sample, int64 (B); for label_logits whether each
//                  logit is above 0, bool (B, classes)
//   "logits"       if a sample has one class: the logits of each sample, (B, classes), for measures that rank the
//                  classes, such as the top-5 accuracy
// Returns the same errors as WithLossHead.
absl::StatusOr<Graph> WithEvalHead(const Graph& evaluation);

// The program that predicts: the evaluation program (see WithEvalHead) without labels. Its outputs depend on the
// model's head:
//   logits        (B, classes): "class", the class with the largest logit, int64 (B); "logits", unchanged
//   logits        (B, T, vocabulary): "tokens", the likeliest token after each position, int64 (B, T)
//   predictions   "predictions", unchanged
//   label_logits  (B, classes): "labels", whether each logit is above 0, bool (B, classes); "logits", unchanged
// INVALID_ARGUMENT (reason NO_HEAD) if the model has none of these outputs, for example because it computes its own
// loss.
absl::StatusOr<Graph> WithPredictions(const Graph& evaluation);

}  // namespace ampd::graph
