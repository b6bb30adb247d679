#include "worker/amp/step/cuda_input_copies.h"

#include <ATen/ops/empty_like.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>
#include <c10/util/Exception.h>

#include <vector>

#include "worker/amp/step/cuda_streams.h"

namespace ampd::amp {
namespace {

namespace cuda = c10::cuda;

// Inputs with fewer bytes than this in total are copied on the current stream. A stream of their own would need
// events and a second copy on the device, which take longer than the transfer of so few bytes.
constexpr size_t kLeastBytes = size_t{1} << 20;

bool AreAlike(const at::Tensor& one, const at::Tensor& other) {
  return one.defined() && one.scalar_type() == other.scalar_type() && one.sizes() == other.sizes() &&
         one.strides() == other.strides();
}

at::Tensor Pinned(const at::Tensor& tensor) { return tensor.is_cpu() ? tensor.pin_memory() : tensor; }

class CudaInputCopies final : public InputCopies {
 public:
  explicit CudaInputCopies(c10::Device device)
      : device_(device), stream_(StreamFor(StreamUse::kCopies, device.index())) {}

  void Copy(const std::vector<TensorCopy>& copies) override {
    size_t bytes = 0;
    std::vector<at::Tensor> pinned;
    for (const TensorCopy& copy : copies) {
      bytes += copy.from.nbytes();
      pinned.push_back(Pinned(copy.from));
    }
    const cuda::CUDAStream current = cuda::getCurrentCUDAStream(device_.index());
    if (bytes < kLeastBytes || !MakeArrived(copies, current)) {
      for (size_t i = 0; i < copies.size(); ++i) {
        copies[i].to.copy_(pinned[i], /*non_blocking=*/true);
      }
      return;
    }
    read_.block(stream_.unwrap());  // The last step's inputs must be read before they are overwritten.
    {
      const cuda::CUDAStreamGuard guard(stream_);
      for (size_t i = 0; i < copies.size(); ++i) {
        arrived_[i].copy_(pinned[i], /*non_blocking=*/true);
      }
    }
    c10::Event have_arrived(c10::DeviceType::CUDA);
    have_arrived.record(stream_.unwrap());
    have_arrived.block(current.unwrap());
    for (size_t i = 0; i < copies.size(); ++i) {
      copies[i].to.copy_(arrived_[i], /*non_blocking=*/true);
    }
    read_.record(current.unwrap());
  }

 private:
  // Allocates `arrived_`, the tensors on the device that receive the inputs from the host, unless they exist. Returns
  // false if there is too little memory.
  bool MakeArrived(const std::vector<TensorCopy>& copies, const cuda::CUDAStream& current) {
    bool made = false;
    arrived_.resize(copies.size());
    try {
      for (size_t i = 0; i < copies.size(); ++i) {
        if (!AreAlike(arrived_[i], copies[i].to)) {
          arrived_[i] = at::empty_like(copies[i].to);
          made = true;
        }
      }
    } catch (const c10::OutOfMemoryError&) {
      // The current stream already waits for the copy stream's work on `arrived_`, so the memory may be used again.
      arrived_.clear();
      return false;
    }
    if (made) {
      // The allocator may have taken the new tensors from memory that earlier work on the current stream still uses.
      // Make the copies wait until this work is done.
      read_.record(current.unwrap());
    }
    return true;
  }

  const c10::Device device_;
  const cuda::CUDAStream stream_;
  std::vector<at::Tensor> arrived_;         // On the device; copied on from there by the current stream.
  c10::Event read_{c10::DeviceType::CUDA};  // Marks when the current stream has read `arrived_`.
};

}  // namespace

std::unique_ptr<InputCopies> MakeCudaInputCopies(c10::Device device) {
  return std::make_unique<CudaInputCopies>(device);
}

}  // namespace ampd::amp
