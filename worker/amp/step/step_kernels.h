#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "worker/amp/step/step_graph.h"
#include "worker/amp/step/tensor_copy.h"
#include "worker/kernels/cpu/step_kernels.h"
#include "worker/kernels/cuda/cuda_kernels.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

// The device on which an engine computes, and its kernels, which are never freed. If `cuda_kernels` is null, the CPU's
// loops are used: `cpu_kernels`, or if that is null, too, the loops for the widest instruction set that this machine
// has. If `graphs` is null, steps are not recorded.
struct ComputeDevice {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  const kernels::CudaKernels* cuda_kernels = nullptr;
  const kernels::CpuKernels* cpu_kernels = nullptr;
  const StepGraphs* graphs = nullptr;
  std::string why_no_graphs = {};  // Why a GPU has no graphs, as text for messages.
};

// One parameter's tensors for an update. All have the same strides, so a loop over their memory visits the same
// elements.
struct StepTensors {
  at::Tensor gradient;      // In any of the formats; undefined: the parameter is left alone.
  at::Tensor master;        // fp32; undefined: the leaf itself is updated.
  at::Tensor leaf;          // The master's rounded copy, or the master itself.
  at::Tensor remainder;     // int16; the lower halves of masters whose upper halves are the leaf.
  bool stochastic = false;  // A bf16 leaf without a master is rounded stochastically.
  at::Tensor first;         // First moment of Adam, or momentum buffer of SGD (undefined without momentum); any format.
  at::Tensor second;        // Second moment of Adam, in the format of `first`.
  at::Tensor average;       // Average of the parameter over the steps, fp32; undefined: none.
  double learning_rate = 0;
  double weight_decay = 0;
};

// The passes of a step over all parameters (sums, updates, roundings), and the decisions between them, on one device. A
// CPU processes the tensors chunk by chunk on LibTorch's threads, with the same bits for any number of threads. A GPU
// processes all tensors in one launch (ComputeGradStats: two) on LibTorch's current stream, and no function waits for
// it. GPU errors are thrown as c10::OutOfMemoryError or c10::AcceleratorError. Single-threaded; owner: the engine.
class StepKernels {
 public:
  static std::unique_ptr<StepKernels> Make(const ComputeDevice& device);
  virtual ~StepKernels() = default;

  // Sets stats[i] to the statistics of gradients[i], or to zero if the gradient is undefined. `stats` is in the
  // device's memory.
  virtual void ComputeGradStats(const std::vector<at::Tensor>& gradients, kernels::GradientStats* stats) = 0;

  // Decides by the gradient statistics whether the phases from `first_phase` to `first_phase + num_phases - 1` update.
  // Either all of them update or none does.
  virtual void Decide(const kernels::StepControl& control, int first_phase, int num_phases) = 0;
  // Ends a step, after its last update (kernels::EndStep).
  virtual void EndStep(const kernels::StepControl& control) = 0;

  // Call BeginRecording before a step's passes are recorded in a step graph, and EndRecording after them. EndRecording
  // copies to the device the rows that the recorded passes read. REQUIRES: an earlier step had at least as many rows.
  virtual void BeginRecording() {}
  virtual void EndRecording() {}

  // sums[i] += gradients[i], in fp32. REQUIRES: sums[i] is defined if gradients[i] is.
  virtual void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) = 0;

  // Takes one optimizer step; does nothing if `decision`, in the device's memory, says to skip it. Fields that `step`
  // and the decision both have are read from the decision. Writes masters, moments, averages and leaves. Autograd does
  // not notice that the leaves change.
  virtual void UpdateAdam(const kernels::AdamStep& step, const kernels::StepDecision* decision,
                          const std::vector<StepTensors>& tensors) = 0;
  virtual void UpdateSgd(const kernels::SgdStep& step, const kernels::StepDecision* decision,
                         const std::vector<StepTensors>& tensors) = 0;

  // Rounds masters into their leaves, and sets remainders where they are defined. Does not read or write other tensors.
  virtual void Round(const std::vector<StepTensors>& tensors) = 0;

  // Copies tensors, bit for bit. If `if_skipped` is set, in the device's memory, does so only if that decision says to
  // skip the step. REQUIRES: all tensors are dense, in fp32 or a 16-bit format.
  virtual void Copy(const std::vector<TensorCopy>& copies, const kernels::StepDecision* if_skipped) = 0;
};

}  // namespace ampd::amp
