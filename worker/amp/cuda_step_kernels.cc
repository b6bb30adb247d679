#include "worker/amp/cuda_step_kernels.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "worker/amp/cuda_error.h"
#include "worker/amp/current_stream.h"
#include "worker/amp/step_rows.h"

namespace ampd::amp {
namespace {

using kernels::CudaTable;
using kernels::GradientFacts;
using kernels::TensorRow;

class CudaStepKernels final : public StepKernels {
 public:
  explicit CudaStepKernels(const ComputeDevice& device) : kernels_(*device.cuda_kernels), device_(device.device) {}

  void Examine(const std::vector<at::Tensor>& gradients, GradientFacts* facts) override {
    at::from_blob(facts, {static_cast<int64_t>(gradients.size() * sizeof(GradientFacts))}, BytesHere()).zero_();
    const CudaTable table = Upload(RowsToExamine(gradients), examined_);
    const at::Tensor of_chunks = Bytes(table.num_chunks * sizeof(GradientFacts));
    Check(kernels_.examine(table, static_cast<GradientFacts*>(of_chunks.data_ptr()), facts, Stream()));
  }

  void Decide(const kernels::StepControl& control, int first_phase, int num_phases) override {
    Check(kernels_.decide(control, first_phase, num_phases, Stream()));
  }

  void EndStep(const kernels::StepControl& control) override { Check(kernels_.end_step(control, Stream())); }

  void Accumulate(const std::vector<at::Tensor>& gradients, const std::vector<at::Tensor>& sums) override {
    Check(kernels_.accumulate(Upload(RowsToAccumulate(gradients, sums), accumulated_), Stream()));
  }

  void UpdateAdam(const kernels::AdamStep& step, const kernels::StepDecision* decision,
                  const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_adam(Upload(RowsToUpdate(tensors), updated_), &step, decision, Stream()));
  }

  void UpdateSgd(const kernels::SgdStep& step, const kernels::StepDecision* decision,
                 const std::vector<StepTensors>& tensors) override {
    Check(kernels_.update_sgd(Upload(RowsToUpdate(tensors), updated_), &step, decision, Stream()));
  }

  void Round(const std::vector<StepTensors>& tensors) override {
    Check(kernels_.round(Upload(RowsToRound(tensors), rounded_), Stream()));
  }

 private:
  // The rows that a kind of pass was last given, here and on the device.
  struct UploadedRows {
    std::vector<std::byte> here;
    at::Tensor there;
  };

  at::TensorOptions BytesHere() const { return at::TensorOptions().dtype(at::kByte).device(device_); }
  at::Tensor Bytes(size_t count) const { return at::empty({static_cast<int64_t>(count)}, BytesHere()); }

  // Writes the rows to the device, unless they are those of last time: the allocator mostly gives the gradients of a
  // step the memory of the last one's. Passes and copies share one stream, so that a pass that has not run yet still
  // reads the rows it was given.
  CudaTable Upload(const StepRows& rows, UploadedRows& last) const {
    const auto bytes = std::as_bytes(std::span(rows.rows));
    if (!std::equal(bytes.begin(), bytes.end(), last.here.begin(), last.here.end())) {
      last.here.assign(bytes.begin(), bytes.end());
      const at::Tensor pinned = at::empty({static_cast<int64_t>(bytes.size())},
                                          at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda()));
      std::copy(bytes.begin(), bytes.end(), static_cast<std::byte*>(pinned.data_ptr()));
      if (!last.there.defined() || last.there.nbytes() < bytes.size()) {
        last.there = Bytes(bytes.size());
      }
      last.there.narrow(0, 0, pinned.numel()).copy_(pinned, /*non_blocking=*/true);
    }
    CudaTable table;
    table.tensors = bytes.empty() ? nullptr : static_cast<const TensorRow*>(last.there.const_data_ptr());
    table.num_tensors = static_cast<int32_t>(rows.rows.size());
    table.num_chunks = rows.num_chunks;
    return table;
  }

  void* Stream() const { return CurrentStream(device_); }
  void Check(int error) const { CheckCuda(kernels_, error); }

  const kernels::CudaKernels& kernels_;
  const c10::Device device_;
  UploadedRows examined_, accumulated_, updated_, rounded_;
};

}  // namespace

std::unique_ptr<StepKernels> MakeCudaStepKernels(const ComputeDevice& device) {
  return std::make_unique<CudaStepKernels>(device);
}

}  // namespace ampd::amp
