#pragma once

#include <string>

#include "ATen/core/Tensor.h"
#include "precision/preset.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// One trained tensor. The graph reads `leaf`, and autograd gives it a gradient. The optimizer updates its fp32 master,
// which is stored in one of three ways: as `master`, which is the leaf itself if the policy stores the parameter in
// fp32; in halves, the upper one in a bf16 leaf and the lower one in `remainder`; or not at all, and then the optimizer
// updates the leaf. All tensors have the same strides, so that loops over their memory meet the same elements.
struct Parameter {
  std::string name;
  at::Tensor master;  // fp32.
  at::Tensor leaf;
  at::Tensor remainder;     // int16.
  bool stochastic = false;  // A leaf without a master is rounded stochastically.
  // The format that the numbers of its gradient were rounded to; narrower than the leaf's if a cast follows the leaf.
  at::ScalarType gradient_format = at::kFloat;
};

// Makes a parameter with the value `initial`, an fp32 tensor on the device and with the strides that the parameter
// shall have. REQUIRES: with a remainder, `dtype` is bf16.
Parameter MakeParameter(const std::string& name, const at::Tensor& initial, at::ScalarType dtype,
                        precision::Masters masters, StepKernels& kernels);

// The fp32 master, or the leaf widened to fp32 if there is none: a contiguous copy on the CPU, in `reuse` as CopyInto.
at::Tensor MasterOf(const Parameter& parameter, at::Tensor reuse = {});

// Sets the master, and rounds it into the leaf without autograd noticing. `value` has the parameter's shape.
void SetMaster(const Parameter& parameter, const at::Tensor& value, StepKernels& kernels);

// A tensor with the parameter's shape, strides and device.
at::Tensor EmptyBeside(const Parameter& parameter, at::ScalarType dtype);

}  // namespace ampd::amp
