#include "worker/amp/cuda_step_kernels.h"

#include <cstring>

#include "ATen/ops/empty.h"
#include "c10/util/Exception.h"
#include "worker/amp/step_rows.h"

namespace ampd::amp {
namespace {

using kernels::CudaTable;
using kernels::GradientFacts;
using kernels::TensorRow;

constexpr int kCudaErrorMemoryAllocation = 2;
// LibTorch computes on the device's default stream unless told otherwise, and nobody tells it.
constexpr void* kDefaultStream = nullptr;

class CudaStepKernels final : public StepKernels {
 public:
  explicit CudaStepKernels(const ComputeDevice& device) : kernels_(*device.cuda_kernels), device_(device.device) {}

  std::vector<GradientFacts> Examine(const std::vector<at::Tensor>& gradients) override {
    const StepRows rows = RowsToExamine(gradients);
    std::vector<GradientFacts> facts(gradients.size());
    if (rows.rows.empty()) {
      return facts;
    }
    const CudaTable table = Upload(rows);
    const at::Tensor of_chunks = Bytes(table.num_chunks * sizeof(GradientFacts));
    const at::Tensor of_tensors = Bytes(rows.rows.size() * sizeof(GradientFacts));
    Check(kernels_.examine(table, static_cast<GradientFacts*>(of_chunks.data_ptr()),
                           static_cast<GradientFacts*>(of_tensors.data_ptr()), kDefaultStream));
    const at::Tensor read = of_tensors.to(at::kCPU);
    for (size_t k = 0; k < rows.places.size(); ++k) {
      std::memcpy(&facts[rows.places[k]], read.const_data_ptr<uint8_t>() + k * sizeof(GradientFacts),
                  sizeof(GradientFacts));
    }
    return facts;
  }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    Check(kernels_.accumulate(Upload(RowsToAccumulate(gradients, sums)), kDefaultStream));
  }

  void UpdateAdam(const kernels::AdamStep& step, const kernels::StepScalars& scalars,
                  const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_adam(Upload(RowsToUpdate(tensors)), &step, &scalars, kDefaultStream));
  }

  void UpdateSgd(const kernels::SgdStep& step, const kernels::StepScalars& scalars,
                 const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_sgd(Upload(RowsToUpdate(tensors)), &step, &scalars, kDefaultStream));
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    Check(kernels_.round(Upload(RowsToRound(tensors)), kDefaultStream));
  }

 private:
  at::Tensor Bytes(size_t count) const {
    return at::empty({static_cast<int64_t>(count)}, at::TensorOptions().dtype(at::kByte).device(device_));
  }

  // Writes the rows to the device, where they stay until the next pass: passes and copies share one stream.
  CudaTable Upload(const StepRows& rows) {
    const size_t bytes = rows.rows.size() * sizeof(TensorRow);
    const at::Tensor host = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
    if (bytes > 0) {
      std::memcpy(host.data_ptr(), rows.rows.data(), bytes);
    }
    if (!rows_.defined() || rows_.nbytes() < bytes) {
      rows_ = Bytes(bytes);
    }
    rows_.narrow(0, 0, host.numel()).copy_(host);
    CudaTable table;
    table.tensors = static_cast<const TensorRow*>(rows_.const_data_ptr());
    table.num_tensors = static_cast<int32_t>(rows.rows.size());
    table.num_chunks = rows.num_chunks;
    return table;
  }

  void Check(int error) const {
    if (error == kCudaErrorMemoryAllocation) {
      TORCH_CHECK_WITH(OutOfMemoryError, false, "CUDA out of memory in a step kernel");
    }
    if (error != 0) {
      throw c10::AcceleratorError({__func__, __FILE__, static_cast<uint32_t>(__LINE__)}, error,
                                  std::string("a step kernel failed: ") + kernels_.error_text(error));
    }
  }

  const kernels::CudaKernels& kernels_;
  const c10::Device device_;
  at::Tensor rows_;  // bytes on the device
};

}  // namespace

std::unique_ptr<StepKernels> MakeCudaStepKernels(const ComputeDevice& device) {
  return std::make_unique<CudaStepKernels>(device);
}

}  // namespace ampd::amp
