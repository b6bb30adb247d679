#include "worker/amp/step/cuda_step_kernels.h"

#include <algorithm>
#include <cstddef>
#include <span>

#include "ATen/ops/empty.h"
#include "ATen/ops/from_blob.h"
#include "c10/util/Exception.h"
#include "worker/amp/step/cuda_error.h"
#include "worker/amp/step/current_stream.h"
#include "worker/amp/step/step_rows.h"

namespace ampd::amp {
namespace {

using kernels::CudaTable;
using kernels::GradientStats;
using kernels::TensorRow;

class CudaStepKernels final : public StepKernels {
 public:
  explicit CudaStepKernels(const ComputeDevice& device) : kernels_(*device.cuda_kernels), device_(device.device) {}

  void ComputeGradStats(const std::vector<at::Tensor>& gradients, GradientStats* stats) override {
    // The device is given twice, as the target and in the options. Otherwise LibTorch would ask CUDA where the memory
    // is, which a recording may not allow.
    at::for_blob(stats, {static_cast<int64_t>(gradients.size() * sizeof(GradientStats))})
        .target_device(device_)
        .options(BytesHere())
        .make_tensor()
        .zero_();
    const CudaTable table = Upload(RowsToMeasure(gradients), measured_);
    const at::Tensor of_chunks = Bytes(table.num_chunks * sizeof(GradientStats));
    Check(kernels_.compute_grad_stats(table, static_cast<GradientStats*>(of_chunks.data_ptr()), stats, Stream()));
  }

  void Decide(const kernels::StepControl& control, int first_phase, int num_phases) override {
    Check(kernels_.decide(control, first_phase, num_phases, Stream()));
  }

  void EndStep(const kernels::StepControl& control) override {
    Check(kernels_.end_step(control, Stream()));
    most_step_bytes_ = std::max(most_step_bytes_, step_bytes_);
    step_bytes_ = 0;
  }

  void BeginRecording() override {
    recorded_ = UploadedRows{.here = {}, .there = Bytes(most_step_bytes_)};
    is_recording_ = true;
  }

  void EndRecording() override {
    is_recording_ = false;
    CopyToDevice(recorded_);
  }

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

  void Copy(const std::vector<TensorCopy>& copies, const kernels::StepDecision* if_skipped) override {
    // A step copies tensors twice: first to save them, then to restore them if the step is skipped. The rows differ, so
    // each of the two copies has its own uploaded rows.
    UploadedRows& last = if_skipped == nullptr ? copied_ : restored_;
    Check(kernels_.copy(Upload(RowsToCopy(copies), last), if_skipped, Stream()));
  }

 private:
  // The rows that were last written to the device for one kind of pass: a copy on the host and the device's memory.
  struct UploadedRows {
    std::vector<std::byte> here;
    at::Tensor there;
  };

  at::TensorOptions BytesHere() const { return at::TensorOptions().dtype(at::kByte).device(device_); }
  at::Tensor Bytes(size_t count) const { return at::empty({static_cast<int64_t>(count)}, BytesHere()); }

  // Writes the rows to the device, unless they equal the rows that were written last. They usually do, because the
  // allocator tends to give a step's gradients the same memory as in the previous step. Passes and copies share one
  // stream, so a pass that is still waiting there reads its own rows before they are overwritten.
  CudaTable Upload(const StepRows& rows, UploadedRows& last) {
    const auto bytes = std::as_bytes(std::span(rows.rows));
    step_bytes_ += bytes.size();
    if (is_recording_) {
      return TableOf(rows, Record(bytes));
    }
    if (!std::equal(bytes.begin(), bytes.end(), last.here.begin(), last.here.end())) {
      last.here.assign(bytes.begin(), bytes.end());
      if (!last.there.defined() || last.there.nbytes() < bytes.size()) {
        last.there = Bytes(bytes.size());
      }
      CopyToDevice(last);
    }
    return TableOf(rows, last.there.defined() ? last.there.const_data_ptr() : nullptr);
  }

  // Keeps `bytes`, the rows of one pass of the step that is being recorded, and returns the device address to which
  // EndRecording will copy them. Each pass has its own part of memory that is used for nothing else.
  const void* Record(std::span<const std::byte> bytes) {
    const size_t begin = recorded_.here.size();
    TORCH_CHECK(begin + bytes.size() <= recorded_.there.nbytes(), "a step with ", begin + bytes.size(),
                " bytes of rows is recorded after steps with at most ", recorded_.there.nbytes());
    recorded_.here.insert(recorded_.here.end(), bytes.begin(), bytes.end());
    return static_cast<const std::byte*>(recorded_.there.const_data_ptr()) + begin;
  }

  // Copies from pinned memory, so that the host does not wait.
  void CopyToDevice(const UploadedRows& rows) const {
    const auto size = static_cast<int64_t>(rows.here.size());
    const at::Tensor pinned = at::empty({size}, at::TensorOptions().dtype(at::kByte).pinned_memory(device_.is_cuda()));
    std::copy(rows.here.begin(), rows.here.end(), static_cast<std::byte*>(pinned.data_ptr()));
    rows.there.narrow(0, 0, size).copy_(pinned, /*non_blocking=*/true);
  }

  static CudaTable TableOf(const StepRows& rows, const void* there) {
    CudaTable table;
    table.tensors = rows.rows.empty() ? nullptr : static_cast<const TensorRow*>(there);
    table.num_tensors = static_cast<int32_t>(rows.rows.size());
    table.num_chunks = rows.num_chunks;
    return table;
  }

  void* Stream() const { return CurrentStream(device_); }
  void Check(int error) const { CheckCuda(kernels_, error); }

  const kernels::CudaKernels& kernels_;
  const c10::Device device_;
  UploadedRows measured_, accumulated_, updated_, rounded_, copied_, restored_;
  size_t step_bytes_ = 0;  // Bytes of rows in the step so far.
  size_t most_step_bytes_ = 0;
  bool is_recording_ = false;
  UploadedRows recorded_;  // Rows of all passes of the recorded step.
};

}  // namespace

std::unique_ptr<StepKernels> MakeCudaStepKernels(const ComputeDevice& device) {
  return std::make_unique<CudaStepKernels>(device);
}

}  // namespace ampd::amp
