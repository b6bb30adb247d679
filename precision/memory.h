#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "graph/graph.h"
#include "graph/losses.h"
#include "graph/memory/memory.h"
#include "graph/work.h"
#include "precision/policy.h"

namespace ampd::v1 {
class Device;
class JobSpec;
}  // namespace ampd::v1

namespace ampd::precision {

// Properties of a training run that affect its memory, besides model and policy.
struct TrainingSetup {
  static TrainingSetup Of(const v1::JobSpec& spec, const v1::Device& device);

  int num_moments = 0;        // Tensors that the optimizer keeps per parameter: 2 for AdamW, 1 for SGD with momentum.
  int num_micro_batches = 1;  // Per step; if more than one, gradients are summed.
  bool averages = false;      // Averages of the weights are kept for the evaluation.
  std::vector<std::string> checkpoint_segments;  // In the form that graph::WithCheckpointSegments accepts.
  int64_t eval_batch_size = 0;                   // Samples; 0: as many as in a micro-batch.
  bool gathers_ahead = false;                    // Batches for later steps are gathered ahead, which takes memory.
  bool on_gpu = false;                           // Steps are recorded, and LibTorch's libraries keep workspaces.
};

// The number of threads on which a trainer gathers batches if it may run on `num_cores`. The training loop gathers too
// when it has to wait, and more threads than cores would delay the batch that is needed next.
inline constexpr int kGatherThreads = 2;
int GatherThreads(int num_cores);

// The number of batches of `batch_bytes` that a trainer gathers ahead, in host memory, on up to kGatherThreads threads.
// It is at least one ready batch and one per thread; for small batches it is as many as fit into kBytesAhead, at most
// kMostAhead.
inline constexpr int64_t kLeastAhead = 1 + kGatherThreads;
inline constexpr int64_t kMostAhead = 64;
inline constexpr int64_t kBytesAhead = int64_t{2} << 20;
int64_t BatchesAhead(int64_t batch_bytes);
// Memory of these batches, or up to one batch more: it grows with the batch, like a run's other memory.
int64_t BytesAhead(int64_t batch_bytes);

// The programs of a run, which do not depend on its policy: made once, for any number of policies.
struct TrainedPrograms {
  // The programs of `model`, in the form that the engine accepts. Returns INVALID_ARGUMENT as graph::WithLossHead, and
  // if a model with losses of its own is to be evaluated.
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, bool evaluates);
  // The same for a model with a separate evaluation program; null: it is not evaluated.
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, const graph::Graph* eval_model);

  // Whether sums of the programs' sizes for `num_samples` fit into 64 bits, and are no more than any machine has. An
  // exported model may have any size.
  bool AreCountable(int64_t num_samples) const;

  graph::Graph train;                      // Ends at the loss, or at all of `losses`.
  std::vector<graph::Loss> losses;         // Each has its own program; empty: there is a single loss.
  std::optional<graph::Graph> evaluation;  // Ends at the evaluation sums; nothing: no evaluation.
};

// Bytes of tensors at the peak of a step or an evaluation. The first three are held all the time.
struct MemoryEstimate {
  int64_t weights = 0;         // Masters as stored, and buffers with the copies that a skipped step restores.
  int64_t working_copies = 0;  // Parameters in the compute dtype beside their masters.
  int64_t optimizer = 0;       // Moments and averages.
  int64_t inputs = 0;          // The batch of the step or evaluation, and those gathered ahead.
  int64_t gradients = 0;       // Gradients of parameters, and their sums over micro-batches.
  int64_t activations = 0;     // Values that the backward pass will read.
  int64_t workspace = 0;       // Gradients of values, and what ops need only while they run.
  int64_t total() const { return weights + working_copies + optimizer + inputs + gradients + activations + workspace; }
};

// The memory of training one model under one policy, as a function of the batch size. Created once; queries take
// milliseconds. It is the memory of a CPU, exact except for what single ops need while they run, and within 10% of what
// the trainer measures there. A step of several losses needs as much as the loss that needs most. On a GPU it adds
// cuBLAS's workspaces and the recorded step's inputs, which stay. It does not add the recorded step's working memory,
// which is released if there is too little (worker/amp/captured_step.h), nor the allocator's rounding, cuDNN's
// workspaces and CUDA itself. Thread-compatible.
class MemoryModel {
 public:
  // Returns INVALID_ARGUMENT or UNIMPLEMENTED from the graph passes. `work` counts all that the model does; it may be
  // null, otherwise it outlives the model. After it is stopped, results are meaningless (graph/work.h).
  static absl::StatusOr<MemoryModel> Create(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                            const TrainingSetup& setup, graph::Work* work = nullptr);

  // The same run with other checkpoint segments. Returns INVALID_ARGUMENT as graph::WithCheckpointSegments, and
  // CANCELLED if the work was stopped.
  absl::StatusOr<MemoryModel> WithSegments(const std::vector<std::string>& segments) const;

  // The larger of a step's and an evaluation's memory. REQUIRES: batch_size, the samples of one micro-batch, is at
  // least 1.
  MemoryEstimate At(int64_t batch_size) const;

  // The largest number of samples per micro-batch that fits into `available_bytes`; 0 if not even one fits.
  int64_t LargestBatch(int64_t available_bytes) const;

 private:
  // The program of one loss.
  struct Phase {
    graph::Graph program;
    std::string trained = "*";    // Glob on its parameters.
    int64_t gradient_sums = 0;    // Sums in fp32 over micro-batches, beside the gradients of one.
    int64_t kept_gradients = 0;   // The leaves' own gradients, if micro-batches are added up in them.
    int64_t other_gradients = 0;  // Gradients of earlier phases, held until this one is done.
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
  std::optional<graph::Graph> evaluation_;  // Nothing: no evaluation.
  TrainingSetup setup_;
  graph::Work* work_;
  MemoryEstimate lasting_;  // The part that does not depend on the batch size.
};

// The blocks of a model (graph/blocks.h) that run again in the backward pass, so that training fits into a given
// memory.
struct SegmentChoice {
  std::vector<std::string> segments;  // In the form that graph::WithCheckpointSegments accepts.
  MemoryEstimate estimate;            // With these segments.
  bool fits = false;
};

// Chooses the fewest blocks that make a step with `batch_size` samples per micro-batch fit into `bytes`, or, if none
// do, those with which it needs least. Blocks are counted from the first one, whose values would otherwise be held
// longest. For a model with more than 16 blocks not every number is tried, so that the time grows with the model and
// not with its square: either the choice fits and one block less does not, or it needs least among those tried. The
// segments of `setup` are ignored. `work` as in MemoryModel::Create. Errors as MemoryModel::Create; CANCELLED if the
// work was stopped.
absl::StatusOr<SegmentChoice> ChooseSegments(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                             TrainingSetup setup, int64_t batch_size, int64_t bytes,
                                             graph::Work* work = nullptr);

}  // namespace ampd::precision
