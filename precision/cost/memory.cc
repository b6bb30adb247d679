#include "precision/cost/memory.h"

#include <algorithm>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>

#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker.pb.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "graph/fused_batch_norms.h"
#include "graph/op_table.h"
#include "graph/passes.h"
#include "graph/segments.h"
#include "precision/cost/fp8_weights.h"
#include "precision/pass.h"

namespace ampd::precision {
namespace {

using graph::Dtype;

// The search for the largest batch ends at this number of samples, which is more than any machine holds.
constexpr int64_t kMostSamples = int64_t{1} << 32;

// Bytes of LibTorch's workspaces for cuBLAS on a GPU. There are four: one for each of two threads (the step loop's and
// autograd's) on each of two streams (LibTorch's own and that of captured CUDA graphs). Their size is set in
// worker/train/device/compute_device.cc.
constexpr int64_t kCublasWorkspaces = (int64_t{32} << 20) * 2 * 2;

// Bytes that CUDA takes on a GPU for the context of a process and for the code of LibTorch, cuBLAS, cuDNN and ampd: 0.5
// to 0.7 GB on an H100, depending on the kernels that the job loads.
constexpr int64_t kCudaRuntime = int64_t{640} << 20;

int64_t Elements(const graph::TensorType& type, int64_t batch_size) {
  int64_t elements = 1;
  for (const graph::Dim& dim : type.shape) {
    elements *= dim.At(batch_size);
  }
  return elements;
}

int64_t Bytes(const graph::TensorType& type, int64_t batch_size = 0) {
  return Elements(type, batch_size) * graph::ItemSizeBytes(type.dtype);
}

// Bytes per element of a parameter's master: 4 for fp32, 2 for the lower 16 bits that complete a bf16 parameter, 0 if
// there is no master. A parameter that is stored in fp32 is its own master.
int64_t MasterBytes(Dtype leaf, Masters masters) {
  if (leaf == Dtype::kFloat32 || masters == Masters::kFloat32) {
    return 4;
  }
  return masters == Masters::kRemainder16 ? 2 : 0;
}

std::map<std::string_view, Masters> MastersOf(const ResolvedPolicy& policy) {
  std::map<std::string_view, Masters> masters;
  for (const ParameterRow& row : policy.parameters) {
    masters.emplace(row.name, row.master);
  }
  return masters;
}

// The values that nodes of the program overwrite, such as the running statistics of norms.
std::set<graph::ValueId> WrittenBy(const graph::Graph& program) {
  std::set<graph::ValueId> written;
  for (const graph::Node& node : program.nodes()) {
    const graph::OpRow* const row = graph::FindOp(node.op);
    for (const std::string_view name : row == nullptr ? std::vector<std::string_view>() : row->writes) {
      if (const auto value = node.ValueOf(name); value.has_value()) {
        written.insert(*value);
      }
    }
  }
  return written;
}

// The bytes that all values of a program would take if they were held at once.
double ValueBytes(const graph::Graph& program, int64_t num_samples) {
  double bytes = 0;
  for (int i = 0; i < program.num_values(); ++i) {
    const graph::TensorType& type = program.type({i});
    auto of_value = static_cast<double>(graph::ItemSizeBytes(type.dtype));
    for (const graph::Dim& dim : type.shape) {
      of_value *= static_cast<double>(std::max<int64_t>(dim.factor(), 1)) *
                  (dim.is_batch() ? static_cast<double>(num_samples) : 1.0);
    }
    bytes += of_value;
  }
  return bytes;
}

struct Sized {
  int64_t batch_size = 0;
  int64_t bytes = 0;
};

// The batch size at which `bytes` are reached on the straight line through the points a and b; kMostSamples if the line
// does not rise.
int64_t OnLine(const Sized& a, const Sized& b, int64_t bytes) {
  const auto growth = static_cast<double>(b.bytes - a.bytes) / static_cast<double>(b.batch_size - a.batch_size);
  if (growth <= 0) {
    return kMostSamples;
  }
  const double batch_size = static_cast<double>(b.batch_size) + static_cast<double>(bytes - b.bytes) / growth;
  return static_cast<int64_t>(std::clamp(batch_size, 0.0, static_cast<double>(kMostSamples)));
}

// The number of tensors that the optimizer keeps per parameter.
int NumMoments(const v1::OptimizerSpec& optimizer) {
  if (!optimizer.has_sgd()) {
    return 2;
  }
  return optimizer.sgd().momentum() == 0 ? 0 : 1;
}

bool HasBatchNorms(const graph::Graph& program) {
  return std::any_of(program.nodes().begin(), program.nodes().end(),
                     [](const graph::Node& node) { return node.op == "aten.batch_norm.default"; });
}

}  // namespace

int GatherThreads(int num_cores) { return std::clamp(num_cores - 1, 1, kGatherThreads); }

int64_t BatchesAhead(int64_t batch_bytes) {
  return std::clamp(kBytesAhead / std::max<int64_t>(batch_bytes, 1), kLeastAhead, kMostAhead);
}

int64_t BytesAhead(int64_t batch_bytes) {
  return std::clamp(kBytesAhead, kLeastAhead * batch_bytes, kMostAhead * batch_bytes);
}

TrainingSetup TrainingSetup::Of(const v1::JobSpec& spec, const v1::Device& device) {
  const v1::TrainSpec& train = spec.train();
  return {.num_moments = spec.has_predict() ? 0 : NumMoments(spec.optimizer()),
          .num_micro_batches = std::max(train.gradient_accumulation(), 1),
          .averages = spec.optimizer().has_ema_decay(),
          .checkpoint_segments = {train.checkpoint_segments().begin(), train.checkpoint_segments().end()},
          .eval_batch_size = spec.data().eval_batch_size(),
          .only_evaluates = spec.has_predict(),
          .gathers_ahead = device.kind() != v1::Device::GPU && !spec.has_predict(),
          .on_gpu = device.kind() == v1::Device::GPU};
}

absl::StatusOr<TrainedPrograms> TrainedPrograms::Of(const graph::Graph& model, bool evaluates) {
  const graph::Graph evaluation = graph::EvalProgram(model);
  return Of(model, evaluates ? &evaluation : nullptr);
}

absl::StatusOr<TrainedPrograms> TrainedPrograms::Of(const graph::Graph& model, const graph::Graph* eval_model) {
  AMPD_ASSIGN_OR_RETURN(graph::Graph train, graph::TrainedGraph(model));
  std::optional<graph::Graph> evaluation;
  if (eval_model != nullptr) {
    AMPD_ASSIGN_OR_RETURN(evaluation, graph::WithEvalHead(*eval_model));
  }
  return TrainedPrograms{std::move(train), graph::LossesOf(model), std::move(evaluation)};
}

bool TrainedPrograms::AreCountable(int64_t num_samples) const {
  constexpr double kMostBytes = 0x1p45;
  return ValueBytes(train, num_samples) + (evaluation.has_value() ? ValueBytes(*evaluation, num_samples) : 0) <=
         kMostBytes;
}

absl::StatusOr<MemoryModel> MemoryModel::Create(const TrainedPrograms& programs, const ResolvedPolicy& policy,
                                                const TrainingSetup& setup, graph::Work* work) {
  std::vector<Phase> phases;
  const auto convert = [&](const graph::Graph& program) -> absl::StatusOr<graph::Graph> {
    if (work != nullptr) {
      work->Visit(static_cast<int64_t>(program.nodes().size()));
      AMPD_RETURN_IF_ERROR(work->status());
    }
    AMPD_ASSIGN_OR_RETURN(const graph::Graph converted, ApplyPrecision(program, policy));
    return graph::WithoutDeadNodes(converted);
  };
  const auto add = [&](const graph::Graph& train, const std::string& trained) -> absl::Status {
    AMPD_ASSIGN_OR_RETURN(graph::Graph program, convert(train));
    phases.push_back({.program = std::move(program), .trained = trained});
    return absl::OkStatus();
  };
  for (const graph::Loss& loss : programs.losses) {
    AMPD_ASSIGN_OR_RETURN(const graph::Graph train, graph::LossProgram(programs.train, loss.output));
    AMPD_RETURN_IF_ERROR(add(train, loss.parameters));
  }
  if (programs.losses.empty()) {
    AMPD_RETURN_IF_ERROR(add(programs.train, "*"));
  }
  std::optional<graph::Graph> evaluation;
  if (programs.evaluation.has_value()) {
    AMPD_ASSIGN_OR_RETURN(evaluation, convert(*programs.evaluation));
  }
  return MemoryModel(std::move(phases), std::move(evaluation), policy, setup, work)
      .WithSegments(setup.checkpoint_segments);
}

absl::StatusOr<MemoryModel> MemoryModel::WithSegments(const std::vector<std::string>& segments) const {
  MemoryModel model = *this;
  model.setup_.checkpoint_segments = segments;
  for (Phase& phase : model.phases_) {
    if (work_ != nullptr) {
      work_->Visit(static_cast<int64_t>(phase.program.nodes().size()));
      AMPD_RETURN_IF_ERROR(work_->status());
    }
    AMPD_ASSIGN_OR_RETURN(phase.program, graph::WithCheckpointSegments(phase.program, segments));
    if (setup_.on_gpu && HasBatchNorms(phase.program)) {
      phase.fused = graph::WithFusedBatchNorms(phase.program);
    }
  }
  return model;
}

MemoryModel::MemoryModel(std::vector<Phase> phases, std::optional<graph::Graph> evaluation,
                         const ResolvedPolicy& policy, const TrainingSetup& setup, graph::Work* work)
    : phases_(std::move(phases)), evaluation_(std::move(evaluation)), setup_(setup), work_(work) {
  for (Phase& phase : phases_) {
    CountParameters(phase, policy);
    phase.fp8_weights = Fp8WeightBytes(phase.program);
  }
  CountBuffers();
  lasting_.workspace = setup.on_gpu ? kCublasWorkspaces : 0;
  lasting_.runtime = setup.on_gpu ? kCudaRuntime : 0;
  if (policy.loss_scale.optimizer_skip != LossScaleConfig::OptimizerSkip::kAllTogether) {
    return;
  }
  for (size_t i = 1; i < phases_.size(); ++i) {
    const Phase& before = phases_[i - 1];
    const int64_t gradients =
        before.gradient_sums > 0
            ? before.gradient_sums
            : graph::EstimateRun(before.program, 1, {.trained = before.trained, .work = work}).after_backward.gradients;
    phases_[i].other_gradients = before.other_gradients + gradients;
  }
}

// Adds the memory of the parameters that the phase trains.
void MemoryModel::CountParameters(Phase& phase, const ResolvedPolicy& policy) {
  constexpr auto kWide = static_cast<int64_t>(sizeof(float));
  const bool accumulates = setup_.num_micro_batches > 1;
  const bool sums_in_fp32 = policy.formats.accumulation == Dtype::kFloat32;
  const std::map<std::string_view, Masters> masters = MastersOf(policy);
  for (const graph::State& parameter : phase.program.parameters()) {
    if (!GlobMatches(phase.trained, parameter.name)) {
      continue;
    }
    const graph::TensorType& leaf = phase.program.type(parameter.value);
    const int64_t elements = Elements(leaf, 0);
    const int64_t working = leaf.dtype == Dtype::kFloat32 ? 0 : Bytes(leaf);
    const auto master = masters.find(parameter.name);
    lasting_.weights += MasterBytes(leaf.dtype, master == masters.end() ? Masters::kNone : master->second) * elements;
    lasting_.working_copies += working;
    lasting_.optimizer += graph::ItemSizeBytes(policy.formats.optimizer_state) * elements * setup_.num_moments;
    lasting_.optimizer += setup_.averages ? kWide * elements + working : 0;
    phase.gradient_sums += accumulates && sums_in_fp32 ? kWide * elements : 0;
    phase.kept_gradients += accumulates && !sums_in_fp32 ? Bytes(leaf) : 0;
  }
}

// Adds the memory of every buffer once, and once more for every phase that writes the buffer. The second part is for
// the copy from which a skipped step restores the buffer.
void MemoryModel::CountBuffers() {
  const graph::Graph& program = phases_.front().program;
  for (const graph::State& buffer : program.buffers()) {
    lasting_.weights += Bytes(program.type(buffer.value));
  }
  for (const Phase& phase : phases_) {
    const std::set<graph::ValueId> written = WrittenBy(phase.program);
    for (const graph::State& buffer : phase.program.buffers()) {
      lasting_.weights += written.contains(buffer.value) ? Bytes(program.type(buffer.value)) : 0;
    }
  }
}

MemoryEstimate MemoryModel::At(int64_t batch_size) const {
  if (setup_.only_evaluates && evaluation_.has_value()) {
    return EvaluationAt(batch_size);
  }
  const MemoryEstimate step = StepAt(batch_size);
  if (!evaluation_.has_value()) {
    return step;
  }
  const MemoryEstimate evaluation = EvaluationAt(batch_size);
  return evaluation.total() > step.total() ? evaluation : step;
}

int64_t MemoryModel::InputBytes(int64_t batch_size) const {
  int64_t bytes = 0;
  const graph::Graph& program = phases_.front().program;
  for (graph::ValueId input : program.inputs()) {
    bytes += Bytes(program.type(input), batch_size);
  }
  return bytes;
}

int64_t MemoryModel::AheadBytes(int64_t batch_size) const {
  return setup_.gathers_ahead ? BytesAhead(setup_.num_micro_batches * InputBytes(batch_size)) : 0;
}

MemoryEstimate MemoryModel::StepAt(int64_t batch_size) const {
  MemoryEstimate most;
  for (const Phase& phase : phases_) {
    const MemoryEstimate estimate = PhaseAt(phase, batch_size);
    most = estimate.total() > most.total() ? estimate : most;
  }
  return most;
}

MemoryEstimate MemoryModel::PhaseAt(const Phase& phase, int64_t batch_size) const {
  MemoryEstimate estimate = lasting_;
  estimate.inputs = setup_.num_micro_batches * InputBytes(batch_size) + AheadBytes(batch_size);
  if (setup_.on_gpu) {
    // Add the buffer into which the inputs of the next step are copied while this step reads its own. Also add the
    // input of one micro-batch, for a step that runs op by op and not as the captured CUDA graph.
    estimate.inputs += (setup_.num_micro_batches + 1) * InputBytes(batch_size);
  }
  const graph::RunMemory run = graph::EstimateRun(phase.fused.has_value() ? *phase.fused : phase.program, batch_size,
                                                  {.trained = phase.trained, .on_gpu = setup_.on_gpu, .work = work_});
  estimate.gradients = phase.other_gradients + phase.gradient_sums + std::max(phase.kept_gradients, run.peak.gradients);
  estimate.activations = run.peak.activations;
  estimate.workspace += run.peak.workspace + phase.fp8_weights;
  return estimate;
}

MemoryEstimate MemoryModel::EvaluationAt(int64_t batch_size) const {
  const int64_t num_samples = setup_.eval_batch_size > 0 ? setup_.eval_batch_size : batch_size;
  MemoryEstimate estimate = lasting_;
  estimate.inputs = InputBytes(num_samples) + AheadBytes(batch_size);
  if (setup_.on_gpu && !setup_.only_evaluates) {
    estimate.inputs +=
        int64_t{2} * setup_.num_micro_batches * InputBytes(batch_size);  // Of the captured step and the next.
  }
  const graph::HeldBytes peak = graph::EstimateEvaluation(*evaluation_, num_samples, setup_.on_gpu, work_);
  estimate.activations = peak.activations;
  estimate.workspace += peak.workspace;
  return estimate;
}

// Memory grows nearly linearly with the batch size. So the search follows the line through its last two estimates. This
// leads close to the largest batch after few queries, where bisection would need dozens. Every fourth query bisects:
// for small batches the evaluation may need more memory than the training step, and then the line does not rise.
int64_t MemoryModel::LargestBatch(int64_t available_bytes) const {
  constexpr int64_t kMostGrowth = 1024;  // Keeps byte counts within 64 bits.
  const auto asked = [this](int64_t batch_size) { return Sized{batch_size, At(batch_size).total()}; };
  Sized before = asked(1);
  if (before.bytes > available_bytes) {
    return 0;
  }
  int64_t fits = 1;
  int64_t too_many = kMostSamples;
  Sized last = asked(2);
  for (int round = 1;; ++round) {
    (last.bytes <= available_bytes ? fits : too_many) = last.batch_size;
    if (too_many - fits <= 1 || (work_ != nullptr && work_->is_stopped())) {
      return fits;
    }
    const bool halves = round % 4 == 0 && too_many < kMostSamples;
    const int64_t guess = halves ? fits + (too_many - fits) / 2 : OnLine(before, last, available_bytes);
    before = last;
    last = asked(std::clamp(guess, fits + 1, std::min(too_many - 1, kMostGrowth * fits)));
  }
}

}  // namespace ampd::precision
