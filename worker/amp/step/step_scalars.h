#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "worker/amp/step/cuda_event.h"
#include "worker/amp/step/step_kernels.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

// The host's copy of the scalars that the device computed in one step.
struct StepRecord {
  kernels::StepBlock step;
  std::vector<kernels::PhaseBlock> phases;
  std::vector<kernels::GradientStats> stats;  // Statistics of all phases; those of a phase start at its first_stat.
};

// The scalars of the steps, in the memory of the device that computes them: loss scale, losses, stats of the gradients,
// decisions, counts. No step waits for the host to read them: after each step a copy is sent to the host, which reads
// the copies later, in the order of the steps. Single-threaded; owner: the engine.
class StepScalars {
 public:
  // `phases`: one rule per phase. `num_gradients`: for each phase, its number of gradients.
  StepScalars(const ComputeDevice& device, const kernels::ScalerRule& scaler,
              const std::vector<kernels::PhaseRule>& phases, const std::vector<size_t>& num_gradients);

  // Pointers to the scalars, for kernels.
  const kernels::StepControl& control() const { return control_; }
  const kernels::StepDecision* decision(size_t phase) const { return &control_.phases[phase].decision; }
  kernels::GradientStats* stats(size_t phase) const { return control_.stats + start_.phases[phase].first_stat; }

  // The scalars for LibTorch's ops: 0-dim views on the device.
  const at::Tensor& loss_scale() const { return loss_scale_; }               // fp32, for the next step
  const at::Tensor& loss(size_t phase) const { return views_[phase].loss; }  // fp32
  const at::Tensor& skip(size_t phase) const { return views_[phase].skip; }  // bool, valid after the decision
  at::Tensor any_skip() const;                                               // Whether any phase skips.

  // Sets the state in which the next step begins; waits for the device. `applied`: for each phase, the number of steps
  // applied so far.
  void Load(const kernels::ScalerState& scaler, double rate_factor, const std::vector<int64_t>& applied);

  // Sends a copy of the scalars to the host, ordered after the work of the last step.
  void Send();
  // Waits until the oldest step whose record was sent is done, and returns the record. REQUIRES: there is such a step.
  StepRecord AwaitStep();

 private:
  struct Views {
    at::Tensor loss;
    at::Tensor skip;
  };
  struct Sent {
    at::Tensor bytes;                  // On the host.
    std::optional<CudaEvent> arrived;  // nullopt: a CPU has no work under way.
  };

  StepRecord Parse(const at::Tensor& bytes) const;
  at::Tensor View(size_t offset, at::ScalarType type) const;

  const c10::Device device_;
  const kernels::CudaKernels* const kernels_;  // Null on a CPU.
  StepRecord start_;                           // The state that Load writes to the device.
  at::Tensor bytes_;                           // On the device: the step's block, the phases' blocks, the stats.
  kernels::StepControl control_;
  at::Tensor loss_scale_;
  std::vector<Views> views_;
  std::deque<Sent> sent_;
};

}  // namespace ampd::amp
