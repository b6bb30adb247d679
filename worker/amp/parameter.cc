#include "worker/amp/parameter.h"

#include <utility>

#include "ATen/ops/empty.h"
#include "ATen/ops/empty_like.h"
#include "worker/amp/step/format.h"

namespace ampd::amp {

Parameter MakeParameter(const std::string& name, const at::Tensor& initial, at::ScalarType dtype,
                        precision::Masters masters, StepKernels& kernels) {
  Parameter parameter{.name = name, .master = {}, .leaf = initial.to(dtype), .remainder = {}};
  if (dtype == at::kFloat) {
    parameter.master = parameter.leaf;
  } else if (masters == precision::Masters::kFloat32) {
    parameter.master = initial;
  } else if (masters == precision::Masters::kRemainder16) {
    parameter.remainder = EmptyBeside(parameter, at::kShort);
    SetMaster(parameter, initial, kernels);
  }
  return parameter;
}

at::Tensor MasterOf(const Parameter& parameter, at::Tensor reuse) {
  if (parameter.master.defined()) {
    return CopyInto(std::move(reuse), parameter.master, at::kFloat);
  }
  if (!parameter.remainder.defined()) {
    return CopyInto(std::move(reuse), parameter.leaf, at::kFloat);
  }
  const at::Tensor leaf = ContiguousCopy(parameter.leaf);
  const at::Tensor remainder = ContiguousCopy(parameter.remainder);
  const bool fits = reuse.defined() && reuse.sizes() == leaf.sizes();
  at::Tensor joined = fits ? std::move(reuse) : at::empty(leaf.sizes(), at::kFloat);
  const auto* upper = static_cast<const uint16_t*>(leaf.const_data_ptr());
  const auto* lower = static_cast<const uint16_t*>(remainder.const_data_ptr());
  auto* masters = joined.data_ptr<float>();
  for (int64_t i = 0; i < joined.numel(); ++i) {
    masters[i] = kernels::Join(upper[i], lower[i]);
  }
  return joined;
}

void SetMaster(const Parameter& parameter, const at::Tensor& value, StepKernels& kernels) {
  const at::Tensor master = parameter.master.defined() ? parameter.master : EmptyBeside(parameter, at::kFloat);
  master.copy_(value);
  StepTensors tensors;
  tensors.master = master;
  tensors.leaf = parameter.leaf;
  tensors.remainder = parameter.remainder;
  kernels.Round({tensors});
  BumpVersion(parameter.leaf);
}

at::Tensor EmptyBeside(const Parameter& parameter, at::ScalarType dtype) {
  return at::empty_like(parameter.leaf, parameter.leaf.options().dtype(dtype).requires_grad(false));
}

}  // namespace ampd::amp
