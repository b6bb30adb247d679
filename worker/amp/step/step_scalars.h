#pragma once

#include <cstdint>
#include <deque>
#include <vector>

#include "ATen/core/Tensor.h"
#include "c10/core/Device.h"
#include "c10/core/Event.h"
#include "worker/kernels/step_control.h"

namespace ampd::amp {

// What a step left behind, read on the host.
struct StepRecord {
  kernels::StepBlock step;
  std::vector<kernels::PhaseBlock> phases;
  std::vector<kernels::GradientFacts> facts;  // of all phases, at their first_fact
};

// The scalars of the steps, in the memory of the device that computes them: loss scale, losses, the facts of the
// gradients, decisions, counts. Nobody waits for them: a step sends a copy of them to the host behind itself, and the
// host reads it when it likes, in the order of the steps. Single-threaded: owner is the engine.
class StepScalars {
 public:
  // One phase a rule, with as many gradients as stand beside it.
  StepScalars(c10::Device device, const kernels::ScalerRule& scaler, const std::vector<kernels::PhaseRule>& phases,
              const std::vector<size_t>& num_gradients);

  // For kernels.
  const kernels::StepControl& control() const { return control_; }
  const kernels::StepDecision* decision(size_t phase) const { return &control_.phases[phase].decision; }
  kernels::GradientFacts* facts(size_t phase) const { return control_.facts + start_.phases[phase].first_fact; }

  // For LibTorch: 0-dim views on the device.
  const at::Tensor& loss_scale() const { return loss_scale_; }               // fp32, of the step to come
  const at::Tensor& loss(size_t phase) const { return views_[phase].loss; }  // fp32
  const at::Tensor& skip(size_t phase) const { return views_[phase].skip; }  // bool, once it is decided
  at::Tensor any_skip() const;                                               // of all phases

  // Sets where the next step begins; waits for the device. `applied` stands beside the phases.
  void Load(const kernels::ScalerState& scaler, double rate_factor, const std::vector<int64_t>& applied);

  // Sends the record of the step that the device was given last, behind it.
  void Send();
  // The record of the first step that was sent and not taken; waits until that step is through. REQUIRES: there is one.
  StepRecord Take();
  size_t num_sent() const { return sent_.size(); }

 private:
  struct Views {
    at::Tensor loss;
    at::Tensor skip;
  };
  struct Sent {
    at::Tensor bytes;  // on the host
    c10::Event arrived;
  };

  StepRecord Parse(const at::Tensor& bytes) const;
  at::Tensor View(size_t offset, at::ScalarType type) const;

  const c10::Device device_;
  StepRecord start_;  // what Load writes
  at::Tensor bytes_;  // on the device: the step's block, the phases', the facts
  kernels::StepControl control_;
  at::Tensor loss_scale_;
  std::vector<Views> views_;
  std::deque<Sent> sent_;
};

}  // namespace ampd::amp
