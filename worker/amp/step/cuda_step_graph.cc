// libampd_cuda_graph.so: step graphs made with LibTorch's CUDAGraph, which serves a recorded step's allocations from a
// pool of its own and lets random ops read their seed from the device. It is a separate library because it calls
// LibTorch's CUDA part, which programs here do not link (worker/train/device/cuda_graphs.h opens both).
#include <ATen/cuda/CUDAGeneratorImpl.h>
#include <ATen/cuda/CUDAGraph.h>
#include <c10/core/Event.h>
#include <c10/cuda/CUDACachingAllocator.h>
#include <c10/cuda/CUDAFunctions.h>
#include <c10/cuda/CUDAGuard.h>
#include <c10/cuda/CUDAStream.h>

#include <algorithm>
#include <exception>
#include <mutex>

#include "ATen/core/Generator.h"
#include "c10/util/Exception.h"
#include "worker/amp/step/cuda_input_copies.h"
#include "worker/amp/step/cuda_streams.h"
#include "worker/amp/step/step_graph.h"

namespace ampd::amp {
namespace {

namespace cuda = c10::cuda;

// Makes work that is given to `later` from now on wait for the work already given to `earlier`.
void PutBehind(const cuda::CUDAStream& later, const cuda::CUDAStream& earlier) {
  c10::Event event(c10::DeviceType::CUDA);
  event.record(earlier.unwrap());
  event.block(later.unwrap());
}

// Bytes that LibTorch's allocator holds on the device, and how many of these bytes are in use by tensors.
struct Taken {
  int64_t all = 0;
  int64_t by_tensors = 0;
};

Taken TakenOf(c10::Device device) {
  constexpr auto kAll = static_cast<size_t>(c10::CachingAllocator::StatType::AGGREGATE);
  const auto stats = cuda::CUDACachingAllocator::getDeviceStats(device.index());
  return {stats.reserved_bytes[kAll].current, stats.allocated_bytes[kAll].current};
}

class CudaStepGraph final : public StepGraph {
 public:
  explicit CudaStepGraph(c10::Device device)
      : device_(device), stream_(StreamFor(StreamUse::kRecording, device.index())) {}

  void WarmUp(absl::FunctionRef<void()> step) override {
    const cuda::CUDAStream current = cuda::getCurrentCUDAStream(device_.index());
    PutBehind(stream_, current);
    {
      const cuda::CUDAStreamGuard guard(stream_);
      step();
    }
    PutBehind(current, stream_);
  }

  std::string Capture(size_t num_seeds, absl::FunctionRef<void()> step) override {
    const at::Generator own = Default().graphsafe_get_state();
    try {
      Record(num_seeds, step);
    } catch (const c10::Error& error) {
      Abandon();
      const std::string text = error.what_without_backtrace();
      return text.substr(0, text.find('\n'));
    }
    Draw(own);
    return "";
  }

  void UseSeed(size_t number) override { Draw(seeds_.at(number)); }

  void Replay(const std::vector<uint64_t>& seeds) override {
    TORCH_CHECK(seeds.size() == seeds_.size(), "a graph with ", seeds_.size(), " seeds was given ", seeds.size());
    for (size_t i = 0; i < seeds.size(); ++i) {
      seeds_[i].set_current_seed(seeds[i]);
    }
    graph_->replay();
  }

  // `free_bytes` includes memory that the allocator has cached, that is, memory of released tensors that it can
  // reuse. It excludes the memory of the captured CUDA graph, even where that looks unused.
  Memory memory() const override {
    const Taken taken = TakenOf(device_);
    const auto free = static_cast<int64_t>(cuda::CUDACachingAllocator::get()->getMemoryInfo(device_.index()).first);
    return {own_bytes_, free + std::max<int64_t>(0, taken.all - taken.by_tensors - own_bytes_)};
  }

 private:
  at::Generator Default() const { return at::cuda::detail::getDefaultCUDAGenerator(device_.index()); }

  // From now on, random ops on the device draw from the state of the generator `from`.
  void Draw(const at::Generator& from) const {
    at::Generator generator = Default();
    const std::lock_guard<std::mutex> lock(generator.mutex());
    generator.graphsafe_set_state(from);
  }

  void Record(size_t num_seeds, absl::FunctionRef<void()> step) {
    graph_ = std::make_unique<at::cuda::CUDAGraph>();
    for (size_t i = 0; i < num_seeds; ++i) {
      seeds_.push_back(at::cuda::detail::createCUDAGenerator(device_.index()));
      graph_->register_generator_state(seeds_.back());
    }
    pool_ = at::cuda::graph_pool_handle();
    cuda::CUDACachingAllocator::emptyCache();  // The graph's own memory replaces what the warm-up allocated.
    const int64_t taken_before = TakenOf(device_).all;
    const cuda::CUDAStream current = cuda::getCurrentCUDAStream(device_.index());
    {
      const cuda::CUDAStreamGuard guard(stream_);
      RecordHere(step);
    }
    own_bytes_ = TakenOf(device_).all - taken_before;
    PutBehind(current, stream_);  // The seeds were first written on stream_.
  }

  void RecordHere(absl::FunctionRef<void()> step) {
    graph_->capture_begin(pool_);
    std::exception_ptr error;
    try {
      step();
    } catch (...) {
      error = std::current_exception();
    }
    // capture_end is called after an error too, because the stream would keep recording otherwise. After an error,
    // capture_end may throw as well. Its error is dropped, because the first error caused it.
    try {
      graph_->capture_end();
    } catch (const c10::Error&) {
      error = error != nullptr ? error : std::current_exception();
    }
    if (error != nullptr) {
      std::rethrow_exception(error);
    }
  }

  // Cleans up after a failed recording. Releases the recording's memory, but leaks the CUDAGraph object, because
  // LibTorch's allocator may still ask it which streams belong to it. The default generator may still be in recording
  // mode, so it gets a fresh state.
  void Abandon() {
    (void)graph_.release();
    for (const auto end : {cuda::CUDACachingAllocator::endAllocateToPool, cuda::CUDACachingAllocator::releasePool}) {
      try {
        end(device_.index(), pool_);
      } catch (const c10::Error&) {
        continue;  // The recording into the pool had already ended, or never begun.
      }
    }
    Draw(at::cuda::detail::createCUDAGenerator(device_.index()));
  }

  const c10::Device device_;
  const cuda::CUDAStream stream_;
  std::vector<at::Generator> seeds_;
  c10::MempoolId_t pool_ = {0, 0};
  int64_t own_bytes_ = 0;
  std::unique_ptr<at::cuda::CUDAGraph> graph_;
};

std::unique_ptr<StepGraph> Make(c10::Device device) { return std::make_unique<CudaStepGraph>(device); }

void ForbidWaits(bool forbidden) {
  cuda::warning_state().set_sync_debug_mode(forbidden ? cuda::SyncDebugMode::L_ERROR : cuda::SyncDebugMode::L_DISABLED);
}

constexpr StepGraphs kStepGraphs = {
    .version = kStepGraphsVersion, .make = Make, .make_copies = MakeCudaInputCopies, .forbid_waits = ForbidWaits};

}  // namespace
}  // namespace ampd::amp

extern "C" __attribute__((visibility("default"))) const ampd::amp::StepGraphs* ampd_step_graphs() {
  return &ampd::amp::kStepGraphs;
}
