#pragma once

#include <utility>

#include "worker/amp/step/cuda_error.h"
#include "worker/kernels/cuda/cuda_kernels.h"

namespace ampd::amp {

// A point in a stream's work, for which the host can wait without using a core. (A wait for an event of LibTorch
// keeps a core busy.) Errors are thrown like those of CheckCuda. Thread-compatible.
class CudaEvent {
 public:
  // REQUIRES: `kernels` outlives the event.
  explicit CudaEvent(const kernels::CudaKernels& kernels) : kernels_(&kernels) {
    CheckCuda(*kernels_, kernels_->create_event(&event_));
  }
  ~CudaEvent() {
    if (event_ != nullptr) {
      kernels_->destroy_event(event_);
    }
  }
  CudaEvent(CudaEvent&& other) noexcept : kernels_(other.kernels_), event_(std::exchange(other.event_, nullptr)) {}
  CudaEvent& operator=(CudaEvent&&) = delete;

  // Marks the end of the work that was given to the stream so far. `stream`: a cudaStream_t.
  void Record(void* stream) { CheckCuda(*kernels_, kernels_->record_event(event_, stream)); }
  // Waits until the work before the last Record is done.
  void Await() const { CheckCuda(*kernels_, kernels_->await_event(event_)); }

 private:
  const kernels::CudaKernels* kernels_;
  void* event_ = nullptr;
};

}  // namespace ampd::amp
