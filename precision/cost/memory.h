#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/cost/memory.h"
#include "graph/graph.h"
#include "graph/losses.h"
#include "graph/work.h"
#include "precision/policy.h"

namespace ampd::v1 {
class Device;
class JobSpec;
}  // namespace ampd::v1

namespace ampd::precision {

// The properties of a training run that affect its memory, apart from the model and the policy.
struct TrainingSetup {
  static TrainingSetup Of(const v1::JobSpec& spec, const v1::Device& device);

  int num_moments = 0;        // Tensors that the optimizer keeps per parameter: 2 for AdamW, 1 for SGD with momentum.
  int num_micro_batches = 1;  // Micro-batches per step. If more than one, gradients are summed.
  bool averages = false;      // The optimizer keeps averages of the weights, for the evaluation.
  std::vector<std::string> checkpoint_segments;  // In the form that graph::WithCheckpointSegments accepts.
  int64_t eval_batch_size = 0;                   // In samples; 0: as many as in a micro-batch.
  bool only_evaluates = false;                   // The run predicts: it makes no step.
  bool gathers_ahead = false;                    // The trainer gathers batches in advance, in host memory.
  bool on_gpu = false;                           // Steps are captured as a CUDA graph; cuBLAS keeps workspaces.
};

// The maximum number of threads on which a trainer gathers (assembles) batches in advance.
inline constexpr int kGatherThreads = 2;
// The number of threads on which a trainer gathers batches in advance if it may run on `num_cores`: all cores but one,
// at least 1 and at most kGatherThreads. The training loop gathers too when it has to wait, and more threads than cores
// would delay the batch that is needed next.
int GatherThreads(int num_cores);

// The least number of batches that a trainer gathers in advance: one ready batch, and one per thread.
inline constexpr int64_t kLeastAhead = 1 + kGatherThreads;
inline constexpr int64_t kMostAhead = 64;
inline constexpr int64_t kBytesAhead = int64_t{2} << 20;
// The number of batches, of `batch_bytes` each, that a trainer gathers in advance into host memory. For small batches
// it is as many as fit into kBytesAhead, at most kMostAhead; it is never less than kLeastAhead.
int64_t BatchesAhead(int64_t batch_bytes);
// The memory of the batches gathered in advance, in bytes. BatchesAhead falls by whole batches as `batch_bytes` grows.
// The result may include up to one batch more, so that it never falls.
int64_t BytesAhead(int64_t batch_bytes);

// The programs (graphs) that a training run executes, before a precision policy is applied. Made once, for any number
// of policies.
struct TrainedPrograms {
  // Makes the programs of `model`, in the form that the engine accepts. Returns the INVALID_ARGUMENT errors of
  // graph::WithLossHead. Also returns INVALID_ARGUMENT if `evaluates` is true, but the model has several losses of its
  // own (graph/losses.h).
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, bool evaluates);
  // Makes the programs of `model` if it has its own evaluation program, `eval_model`, which runs as it is. If
  // `eval_model` is null, the model is not evaluated.
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, const graph::Graph* eval_model);

  // Whether all values of the programs for `num_samples` have at most 2^45 bytes together, which is more than any
  // machine has. Then sums of their sizes fit into 64 bits. Must be checked, because an exported model may have any
  // size.
  bool AreCountable(int64_t num_samples) const;

  graph::Graph train;                      // Computes the loss, or all of `losses`.
  std::vector<graph::Loss> losses;         // Each loss has its own program. Empty: there is one loss.
  std::optional<graph::Graph> evaluation;  // Computes the evaluation's sums. Nothing: no evaluation.
};

// Bytes of tensors at the moment when a step or an evaluation holds most. Weights, working copies and optimizer are
// held all the time.
struct MemoryEstimate {
  int64_t weights = 0;         // Masters as stored; buffers, and copies to restore them after a skipped step.
  int64_t working_copies = 0;  // Parameters in the compute dtype beside their masters.
  int64_t optimizer = 0;       // Moments and averages.
  int64_t inputs = 0;          // The batch of the step or evaluation, and batches gathered in advance.
  int64_t gradients = 0;       // Gradients of parameters, and their sums over micro-batches.
  int64_t activations = 0;     // Values that the backward pass will read.
  int64_t workspace = 0;       // Gradients of values, FP8 weights kept in a step, what ops need only while they run.
  int64_t runtime = 0;         // On a GPU: what CUDA takes for its context and kernels.
  int64_t total() const {
    return weights + working_copies + optimizer + inputs + gradients + activations + workspace + runtime;
  }
};

// The memory of training one model under one policy, as a function of the batch size. Created once; queries take
// milliseconds. For a CPU, everything is counted exactly except the memory that single ops need while they run, and the
// total is within 10% of the measured peak. The data set and the copy of the state from which checkpoints are written
// are not included. A step with several losses counts as much as its most expensive loss.
//
// For a GPU the model adds what is held all the time: cuBLAS's workspaces, the inputs of the captured CUDA graph, and
// an estimate of what CUDA takes for itself. It adds neither the rounding of the allocator, nor cuDNN's workspaces, nor
// the working memory of the captured CUDA graph. This working memory is released if memory is short
// (worker/amp/captured_step.h). Thread-compatible.
class MemoryModel {
 public:
  // Creates the model. Returns the errors of the graph passes, which are INVALID_ARGUMENT or UNIMPLEMENTED. `work`
  // counts the nodes that the model visits, and can stop it early (graph/work.h); the results are then meaningless. A
  // null `work` sets no limit; any other must outlive the model.
  static absl::StatusOr<MemoryModel> Create(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                            const TrainingSetup& setup, graph::Work* work = nullptr);

  // The memory of the same run with other checkpoint segments. Returns the errors of graph::WithCheckpointSegments, and
  // CANCELLED if `work` was stopped.
  absl::StatusOr<MemoryModel> WithSegments(const std::vector<std::string>& segments) const;

  // The memory of a step or of an evaluation, whichever is larger. For a run that only evaluates or predicts, the
  // memory of the evaluation; for a prediction this estimate is too high, because a prediction does not compute the
  // sums over labels. REQUIRES: batch_size, the samples of one micro-batch, is at least 1.
  MemoryEstimate At(int64_t batch_size) const;

  // The largest number of samples per micro-batch that fits into `available_bytes`; 0 if not even one fits.
  int64_t LargestBatch(int64_t available_bytes) const;

 private:
  // The program of one loss.
  struct Phase {
    graph::Graph program;
    // The program with fused batch norms, which a GPU runs in place of `program`. If it is not set, `program` itself is
    // run.
    std::optional<graph::Graph> fused = {};
    std::string trained = "*";    // Glob on the names of the parameters that the loss trains.
    int64_t gradient_sums = 0;    // fp32 sums over micro-batches, held beside one micro-batch's gradients.
    int64_t kept_gradients = 0;   // Gradients of the autograd leaves, if they sum the micro-batches.
    int64_t other_gradients = 0;  // Gradients of earlier phases, held until this phase is done.
    int64_t fp8_weights = 0;      // FP8 weights, held while the passes run.
  };

  MemoryModel(std::vector<Phase> phases, std::optional<graph::Graph> evaluation, const ResolvedPolicy& policy,
              const TrainingSetup& setup, graph::Work* work);

  void CountParameters(Phase& phase, const ResolvedPolicy& policy);
  void CountBuffers();
  int64_t InputBytes(int64_t batch_size) const;
  int64_t AheadBytes(int64_t batch_size) const;
  MemoryEstimate StepAt(int64_t batch_size) const;
  MemoryEstimate PhaseAt(const Phase& phase, int64_t batch_size) const;
  MemoryEstimate EvaluationAt(int64_t batch_size) const;

  std::vector<Phase> phases_;               // At least one; all have the same inputs, parameters and buffers.
  std::optional<graph::Graph> evaluation_;  // Nothing: the run has no evaluation.
  TrainingSetup setup_;
  graph::Work* work_;
  MemoryEstimate lasting_;  // The part of the memory that does not depend on the batch size.
};

// A choice of blocks of a model (graph/blocks.h) that run again in the backward pass, so that training fits into a
// given memory.
struct SegmentChoice {
  std::vector<std::string> segments;  // In the form that graph::WithCheckpointSegments accepts.
  MemoryEstimate estimate;            // The memory with these segments.
  bool fits = false;
};

// Chooses how many of the model's first blocks run again in the backward pass: the smallest number N with which a step
// with `batch_size` samples per micro-batch fits into `bytes` or, if no number fits, the N with which the step needs
// the least memory. The first blocks are chosen because their values would be held longest. For a model with more than
// 16 blocks, only some numbers are tried, so that the time grows linearly with the number of blocks and not
// quadratically. Then N is a number that fits while N - 1 does not fit. A smaller number than N - 1 may fit too,
// because more blocks do not always need less memory. If none of the tried numbers fits, N is the one that needs the
// least. The segments of `setup` are ignored. `work` is used as by MemoryModel::Create. Returns the errors of
// MemoryModel::Create, and CANCELLED if `work` was stopped.
absl::StatusOr<SegmentChoice> ChooseSegments(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                             TrainingSetup setup, int64_t batch_size, int64_t bytes,
                                             graph::Work* work = nullptr);

}  // namespace ampd::precision
