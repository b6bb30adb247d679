#pragma once

#include <memory>
#include <string>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "worker/amp/step/step_graph.h"
#include "worker/kernels/cpu/step_kernels.h"
#include "worker/kernels/cuda/cuda_kernels.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

// Where an engine computes, and with which kernels, which live for ever: `cuda_kernels` null means the CPU's loops,
// `cpu_kernels` null those of the widest instruction set here, and `graphs` null that steps are not recorded.
struct ComputeDevice {
  c10::Device device = c10::Device(c10::DeviceType::CPU);
  const kernels::CudaKernels* cuda_kernels = nullptr;
  const kernels::CpuKernels* cpu_kernels = nullptr;
  const StepGraphs* graphs = nullptr;
  std::string why_no_graphs = {};  // of a GPU; for people
};

// What one parameter brings to an update. All have the same strides, so that loops over their memory meet the same
// elements.
struct StepTensors {
  at::Tensor gradient;      // in any of the formats; undefined: the parameter is left alone
  at::Tensor master;        // fp32; undefined: the leaf itself is updated
  at::Tensor leaf;          // the master's rounded copy, or the master itself
  at::Tensor remainder;     // int16; the lower halves of masters whose upper ones are the leaf
  bool stochastic = false;  // a leaf without a master is rounded stochastically
  at::Tensor first;         // first moment of Adam, momentum buffer of SGD (undefined without momentum); any format
  at::Tensor second;        // of Adam; in the first one's format
  at::Tensor average;       // fp32, of the parameter over the steps; undefined: none
  double learning_rate = 0;
  double weight_decay = 0;
};

// The step's passes over all parameters, and what is decided between them, on one device. A CPU takes them chunk by
// chunk on LibTorch's threads, and gives the same bits whatever their number; a GPU takes all in one launch on
// LibTorch's current stream, and nothing here waits for it. Single-threaded: owner is the engine. A GPU's errors leave
// as c10::OutOfMemoryError or c10::AcceleratorError.
class StepKernels {
 public:
  static std::unique_ptr<StepKernels> Make(const ComputeDevice& device);
  virtual ~StepKernels() = default;

  // facts[i] of gradients[i], for an undefined one zero. `facts` is in the device's memory.
  virtual void Examine(const std::vector<at::Tensor>& gradients, kernels::GradientFacts* facts) = 0;

  // Judges `num_phases` phases from `first_phase` on by their facts, and settles whether all of them update or none.
  virtual void Decide(const kernels::StepControl& control, int first_phase, int num_phases) = 0;
  // The tail of a step, after its last update.
  virtual void EndStep(const kernels::StepControl& control) = 0;

  // Passes in between are recorded in a step graph, with no more rows than those of a step before. Whatever they read
  // from the host is brought to the device once, by EndRecording.
  virtual void BeginRecording() {}
  virtual void EndRecording() {}

  // sums[i] += gradients[i], in fp32. REQUIRES: sums[i] is defined where gradients[i] is.
  virtual void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) = 0;

  // One optimizer step, unless `decision`, in the device's memory, is to skip it; of `step` what the decision says
  // besides is not read. Writes masters, moments, averages and leaves, the latter behind autograd's back.
  virtual void UpdateAdam(const kernels::AdamStep& step, const kernels::StepDecision* decision,
                          const std::vector<StepTensors>& tensors) = 0;
  virtual void UpdateSgd(const kernels::SgdStep& step, const kernels::StepDecision* decision,
                         const std::vector<StepTensors>& tensors) = 0;

  // Rounds masters into their leaves, and into remainders where they are defined. Nothing else plays a part.
  virtual void Round(const std::vector<StepTensors>& tensors) = 0;
};

}  // namespace ampd::amp
