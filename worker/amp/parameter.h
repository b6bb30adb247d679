#pragma once

#include <string>

#include "ATen/core/Tensor.h"
#include "precision/preset.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// One trained tensor. The graph reads `leaf`, and autograd gives it a gradient. The optimizer updates the parameter's
// fp32 master, which is stored in one of three ways:
//
//   master      In `master`; this is the leaf itself if the policy stores the parameter in fp32.
//   remainder   In two halves: the upper one is a bf16 leaf, the lower one is in `remainder`.
//   none        Not at all: the optimizer updates the leaf.
//
// All tensors have the same strides, so a loop over their memory visits the same elements.
struct Parameter {
  std::string name;
  at::Tensor master;  // fp32.
  at::Tensor leaf;
  at::Tensor remainder;     // int16.
  bool stochastic = false;  // A bf16 leaf without a master is rounded stochastically.
  // The format to which the numbers of the gradient were rounded. Narrower than the leaf's format if the graph casts
  // the leaf.
  at::ScalarType gradient_format = at::kFloat;
};

// Makes a parameter with the value `initial`, an fp32 tensor on the device and with the strides that the parameter
// shall have. REQUIRES: with a remainder, `dtype` is bf16.
Parameter MakeParameter(const std::string& name, const at::Tensor& initial, at::ScalarType dtype,
                        precision::Masters masters, StepKernels& kernels);

// Returns a contiguous copy on the CPU of the fp32 master, or of the leaf widened to fp32 if there is no master. Writes
// into `reuse` if it matches (CopyInto).
at::Tensor MasterOf(const Parameter& parameter, at::Tensor reuse = {});

// Sets the master, and rounds it into the leaf without autograd noticing. `value` has the parameter's shape.
void SetMaster(const Parameter& parameter, const at::Tensor& value, StepKernels& kernels);

// A tensor with the parameter's shape, strides and device.
at::Tensor EmptyBeside(const Parameter& parameter, at::ScalarType dtype);

}  // namespace ampd::amp
