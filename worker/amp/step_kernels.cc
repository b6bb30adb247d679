#include "worker/amp/step_kernels.h"

#include "worker/amp/cuda_step_kernels.h"
#include "worker/amp/format.h"

namespace ampd::amp {
namespace {

float* DataOrNull(const at::Tensor& tensor) { return tensor.defined() ? tensor.data_ptr<float>() : nullptr; }

void RoundOne(const StepTensors& tensors) {
  if (!tensors.leaf.is_same(tensors.master)) {
    kernels::Round(tensors.master.const_data_ptr<float>(), FormatOf(tensors.leaf), tensors.leaf.data_ptr(),
                   tensors.master.numel());
  }
}

class CpuStepKernels final : public StepKernels {
 public:
  std::vector<kernels::GradientFacts> Examine(const std::vector<at::Tensor>& gradients) override {
    std::vector<kernels::GradientFacts> facts(gradients.size());
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) {
        facts[i] = kernels::Examine(FormatOf(gradients[i]), gradients[i].const_data_ptr(), gradients[i].numel());
      }
    }
    return facts;
  }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined()) {
        kernels::Accumulate(FormatOf(gradients[i]), gradients[i].const_data_ptr(), sums[i].data_ptr<float>(),
                            gradients[i].numel());
      }
    }
  }

  void UpdateAdam(const kernels::AdamStep& step, float scale, const std::vector<StepTensors>& tensors) override {
    for (const StepTensors& one : tensors) {
      if (one.gradient.defined()) {
        kernels::UpdateAdam(step, scale, FormatOf(one.gradient), one.gradient.const_data_ptr(),
                            one.master.data_ptr<float>(), one.first.data_ptr<float>(), one.second.data_ptr<float>(),
                            one.master.numel());
        RoundOne(one);
      }
    }
  }

  void UpdateSgd(const kernels::SgdStep& step, float scale, const std::vector<StepTensors>& tensors) override {
    for (const StepTensors& one : tensors) {
      if (one.gradient.defined()) {
        kernels::UpdateSgd(step, scale, FormatOf(one.gradient), one.gradient.const_data_ptr(),
                           one.master.data_ptr<float>(), DataOrNull(one.first), one.master.numel());
        RoundOne(one);
      }
    }
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    for (const StepTensors& one : tensors) {
      RoundOne(one);
    }
  }
};

}  // namespace

std::unique_ptr<StepKernels> StepKernels::Make(const ComputeDevice& device) {
  if (device.cuda_kernels != nullptr) {
    return MakeCudaStepKernels(device);
  }
  return std::make_unique<CpuStepKernels>();
}

}  // namespace ampd::amp
