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

// What a training run needs besides its model and policy.
struct TrainingSetup {
  static TrainingSetup Of(const v1::JobSpec& spec, const v1::Device& device);

  int num_moments = 0;        // tensors that the optimizer keeps a parameter: 2 of AdamW, 1 of SGD with momentum
  int num_micro_batches = 1;  // a step; from two on, gradients are summed
  bool averages = false;      // of the weights, for the evaluation
  std::vector<std::string> checkpoint_segments;  // as graph::WithCheckpointSegments takes them
  int64_t eval_batch_size = 0;                   // samples; 0: as many as a micro-batch has
  bool gathers_ahead = false;                    // for later steps, in the memory that they take
  bool on_gpu = false;                           // where steps are recorded, and LibTorch's libraries keep workspaces
};

// On how many threads a trainer gathers batches, where it may run on `num_cores`: the training loop gathers too when
// it has to wait, and more threads than cores keep each other from finishing the batch that comes next.
inline constexpr int kGatherThreads = 2;
int GatherThreads(int num_cores);

// How many batches of so many bytes a trainer gathers ahead, in the host's memory, on up to kGatherThreads threads: one
// is there while each of them gathers one; of small ones as many as fit into kBytesAhead, but no more than kMostAhead.
inline constexpr int64_t kLeastAhead = 1 + kGatherThreads;
inline constexpr int64_t kMostAhead = 64;
inline constexpr int64_t kBytesAhead = int64_t{2} << 20;
int64_t BatchesAhead(int64_t batch_bytes);
// What they take, or up to a batch more: it grows with the batch, as a run's other memory does.
int64_t BytesAhead(int64_t batch_bytes);

// What a run computes whatever its policy: made once, for any number of policies.
struct TrainedPrograms {
  // Of `model` as the engine takes it. INVALID_ARGUMENT as graph::WithLossHead says, and when a model with losses of
  // its own is to be evaluated.
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, bool evaluates);
  // The same of a model that has a program of its own for evaluation, which is null where it is not evaluated.
  static absl::StatusOr<TrainedPrograms> Of(const graph::Graph& model, const graph::Graph* eval_model);

  // Whether sums of the programs' sizes, of so many samples, can be counted in 64 bits, and are no more than any
  // machine has: of an exported model nobody knows.
  bool AreCountable(int64_t num_samples) const;

  graph::Graph train;                      // to the loss, or to all of `losses`
  std::vector<graph::Loss> losses;         // each with a program of its own; empty: there is the one
  std::optional<graph::Graph> evaluation;  // to its sums; nothing: there is none
};

// Bytes of tensors at the moment of a step or an evaluation when they are most. The first three are there all the time.
struct MemoryEstimate {
  int64_t weights = 0;         // masters as they are kept, and buffers with the copies that a skipped step goes back to
  int64_t working_copies = 0;  // parameters in the compute dtype beside their masters
  int64_t optimizer = 0;       // moments and averages
  int64_t inputs = 0;          // the step's batch, or the evaluation's, and those that are gathered ahead
  int64_t gradients = 0;       // of parameters, with the sums over micro-batches
  int64_t activations = 0;     // what the backward pass will read
  int64_t workspace = 0;       // gradients of values, and what ops need only while they run
  int64_t total() const { return weights + working_copies + optimizer + inputs + gradients + activations + workspace; }
};

// The memory of training one model under one policy, as a function of the batch size: made once, asked in milliseconds.
// It is that of a CPU, exact but for what single ops need while they run, and within 10% of what the trainer measures
// there. A step of several losses needs what the one needs that needs most. On a GPU there come the workspaces of
// cuBLAS and the recorded step's inputs, which stay; not what it works in, which takes room that is left and gives way
// where none is (worker/amp/captured_step.h); nor what the allocator rounds up, cuDNN's workspaces and CUDA itself.
// Thread-compatible.
class MemoryModel {
 public:
  // INVALID_ARGUMENT or UNIMPLEMENTED as the passes say. All that the model does is counted in `work`, which may be
  // null and otherwise outlives it; once that is stopped, numbers mean nothing (graph/work.h).
  static absl::StatusOr<MemoryModel> Create(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                            const TrainingSetup& setup, graph::Work* work = nullptr);

  // The same run with other checkpoint segments. INVALID_ARGUMENT as graph::WithCheckpointSegments; CANCELLED when the
  // work was stopped.
  absl::StatusOr<MemoryModel> WithSegments(const std::vector<std::string>& segments) const;

  // The larger of a step's and an evaluation's. REQUIRES: batch_size, the samples of one micro-batch, is at least 1.
  MemoryEstimate At(int64_t batch_size) const;

  // The most samples a micro-batch that fit into so many bytes; 0 when not even one does.
  int64_t LargestBatch(int64_t available_bytes) const;

 private:
  // The program of one loss.
  struct Phase {
    graph::Graph program;
    std::string trained = "*";    // glob on its parameters
    int64_t gradient_sums = 0;    // in fp32 over micro-batches, beside the gradients of one
    int64_t kept_gradients = 0;   // the leaves' own, where those of one micro-batch are added to the last ones'
    int64_t other_gradients = 0;  // of the phases before, which wait for this one
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

  std::vector<Phase> phases_;               // at least one; all have the same inputs, parameters and buffers
  std::optional<graph::Graph> evaluation_;  // nothing: there is none
  TrainingSetup setup_;
  graph::Work* work_;
  MemoryEstimate lasting_;  // what does not follow the batch size
};

// Which of a model's blocks (graph/blocks.h) run again in the backward pass, so that training fits into some memory.
struct SegmentChoice {
  std::vector<std::string> segments;  // as graph::WithCheckpointSegments takes them
  MemoryEstimate estimate;            // with them
  bool fits = false;
};

// The fewest blocks, counted from the first one, whose values the backward pass waits for longest, that make a step
// with so many samples a micro-batch fit into `bytes`; or those with which it needs least, where none do. Of a model
// with more than 16 blocks not every number of blocks is tried, so that the time grows with the model and not with its
// square: the choice fits and one block less does not, or it is the least of those that were tried. The segments of
// `setup` play no part. `work` as in MemoryModel::Create. Errors as MemoryModel::Create; CANCELLED when the work was
// stopped.
absl::StatusOr<SegmentChoice> ChooseSegments(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                             TrainingSetup setup, int64_t batch_size, int64_t bytes,
                                             graph::Work* work = nullptr);

}  // namespace ampd::precision
