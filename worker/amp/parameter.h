#pragma once

#include <string>

#include "ATen/core/Tensor.h"
#include "precision/preset.h"
#include "worker/amp/step/step_kernels.h"

namespace ampd::amp {

// One trained tensor. `leaf` is what the graph reads and autograd fills with a gradient. What the optimizer updates is
// its fp32 master, kept in one of three ways: as `master`, which is the leaf itself when the policy stores the
// parameter in fp32; in halves, the upper one a bf16 leaf and the lower one `remainder`; or not at all, and then the
// leaf itself is updated. All have the same strides, so that loops over their memory meet the same elements.
struct Parameter {
  std::string name;
  at::Tensor master;  // fp32
  at::Tensor leaf;
  at::Tensor remainder;     // int16
  bool stochastic = false;  // a leaf without a master is rounded stochastically
  // What the numbers of its gradient were rounded to; narrower than the leaf behind a cast.
  at::ScalarType gradient_format = at::kFloat;
};

// `initial` is fp32, where and with which strides the parameter shall be. REQUIRES: `dtype` is bf16 beside a remainder.
Parameter MakeParameter(const std::string& name, const at::Tensor& initial, at::ScalarType dtype,
                        precision::Masters masters, StepKernels& kernels);

// The fp32 masters, or the widened leaf where there are none: a contiguous copy on the CPU, in `room` as CopyInto.
at::Tensor MasterOf(const Parameter& parameter, at::Tensor room = {});

// Sets the masters, and the leaf to what they are rounded to, behind autograd's back. `value` has the parameter's
// shape.
void SetMaster(const Parameter& parameter, const at::Tensor& value, StepKernels& kernels);

// A tensor with the parameter's shape and strides, where it is.
at::Tensor EmptyBeside(const Parameter& parameter, at::ScalarType dtype);

}  // namespace ampd::amp
