#include "worker/amp/cuda_step_kernels.h"

#include <cstring>
#include <utility>

#include "ATen/ops/empty.h"
#include "c10/util/Exception.h"
#include "worker/amp/format.h"

namespace ampd::amp {
namespace {

using kernels::CudaTable;
using kernels::CudaTensor;
using kernels::GradientFacts;

constexpr int kCudaErrorMemoryAllocation = 2;
// LibTorch computes on the device's default stream unless told otherwise, and nobody tells it.
constexpr void* kDefaultStream = nullptr;

class CudaStepKernels final : public StepKernels {
 public:
  explicit CudaStepKernels(const ComputeDevice& device) : kernels_(*device.cuda_kernels), device_(device.device) {}

  std::vector<GradientFacts> Examine(const std::vector<at::Tensor>& gradients) override {
    std::vector<CudaTensor> rows;
    std::vector<size_t> places;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined() && gradients[i].numel() > 0) {
        places.push_back(i);
        rows.push_back(RowOf(gradients[i]));
      }
    }
    std::vector<GradientFacts> facts(gradients.size());
    if (rows.empty()) {
      return facts;
    }
    const CudaTable table = Upload(std::move(rows));
    const at::Tensor of_chunks = Bytes(table.num_chunks * sizeof(GradientFacts));
    const at::Tensor of_tensors = Bytes(places.size() * sizeof(GradientFacts));
    Check(kernels_.examine(table, static_cast<GradientFacts*>(of_chunks.data_ptr()),
                           static_cast<GradientFacts*>(of_tensors.data_ptr()), kDefaultStream));
    const at::Tensor read = of_tensors.to(at::kCPU);
    for (size_t k = 0; k < places.size(); ++k) {
      std::memcpy(&facts[places[k]], read.const_data_ptr<uint8_t>() + k * sizeof(GradientFacts), sizeof(GradientFacts));
    }
    return facts;
  }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    std::vector<CudaTensor> rows;
    for (size_t i = 0; i < gradients.size(); ++i) {
      if (gradients[i].defined() && gradients[i].numel() > 0) {
        rows.push_back(RowOf(gradients[i]));
        rows.back().accumulated = sums[i].data_ptr<float>();
      }
    }
    Check(kernels_.accumulate(Upload(std::move(rows)), kDefaultStream));
  }

  void UpdateAdam(const kernels::AdamStep& step, float scale, const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_adam(Upload(RowsOf(tensors)), &step, scale, kDefaultStream));
  }

  void UpdateSgd(const kernels::SgdStep& step, float scale, const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_sgd(Upload(RowsOf(tensors)), &step, scale, kDefaultStream));
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    std::vector<CudaTensor> rows;
    for (const StepTensors& one : tensors) {
      if (!one.leaf.is_same(one.master) && one.master.numel() > 0) {
        rows.emplace_back();
        TakeParameter(one, rows.back());
      }
    }
    Check(kernels_.round(Upload(std::move(rows)), kDefaultStream));
  }

 private:
  static CudaTensor RowOf(const at::Tensor& gradient) {
    CudaTensor row;
    row.gradient = gradient.const_data_ptr();
    row.gradient_format = FormatOf(gradient);
    row.count = gradient.numel();
    return row;
  }

  static void TakeParameter(const StepTensors& tensors, CudaTensor& row) {
    row.parameter = tensors.master.data_ptr<float>();
    row.count = tensors.master.numel();
    if (!tensors.leaf.is_same(tensors.master)) {
      row.working = tensors.leaf.data_ptr();
      row.working_format = FormatOf(tensors.leaf);
    }
  }

  static std::vector<CudaTensor> RowsOf(const std::vector<StepTensors>& tensors) {
    std::vector<CudaTensor> rows;
    for (const StepTensors& one : tensors) {
      if (!one.gradient.defined() || one.gradient.numel() == 0) {
        continue;
      }
      CudaTensor row = RowOf(one.gradient);
      TakeParameter(one, row);
      row.first_moment = one.first.defined() ? one.first.data_ptr<float>() : nullptr;
      row.second_moment = one.second.defined() ? one.second.data_ptr<float>() : nullptr;
      rows.push_back(row);
    }
    return rows;
  }

  at::Tensor Bytes(size_t count) const {
    return at::empty({static_cast<int64_t>(count)}, at::TensorOptions().dtype(at::kByte).device(device_));
  }

  // Writes the rows to the device, where they stay until the next pass: passes and copies share one stream.
  CudaTable Upload(std::vector<CudaTensor> rows) {
    CudaTable table;
    for (CudaTensor& row : rows) {
      row.first_chunk = table.num_chunks;
      table.num_chunks += kernels::NumCudaChunks(row.count);
    }
    const size_t bytes = rows.size() * sizeof(CudaTensor);
    const at::Tensor host = at::empty({static_cast<int64_t>(bytes)}, at::kByte);
    if (bytes > 0) {
      std::memcpy(host.data_ptr(), rows.data(), bytes);
    }
    if (!rows_.defined() || rows_.nbytes() < bytes) {
      rows_ = Bytes(bytes);
    }
    rows_.narrow(0, 0, host.numel()).copy_(host);
    table.tensors = static_cast<const CudaTensor*>(rows_.const_data_ptr());
    table.num_tensors = static_cast<int32_t>(rows.size());
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
