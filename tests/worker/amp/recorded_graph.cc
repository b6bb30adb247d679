#include "tests/worker/amp/recorded_graph.h"

#include <torch/library.h>

#include <algorithm>
#include <cstring>
#include <functional>
#include <limits>
#include <map>
#include <mutex>
#include <set>
#include <utility>

#include "ATen/Context.h"
#include "ATen/core/Generator.h"
#include "ATen/core/LegacyTypeDispatch.h"
#include "ATen/core/Tensor.h"
#include "ATen/core/dispatch/Dispatcher.h"
#include "absl/cleanup/cleanup.h"
#include "c10/core/CPUAllocator.h"
#include "c10/core/impl/LocalDispatchKeySet.h"
#include "c10/core/impl/alloc_cpu.h"
#include "c10/util/Exception.h"
#include "tests/worker/kernels/kernels_under_test.h"

namespace ampd::amp {
namespace {

using c10::IValue;
using torch::jit::Stack;

// A dispatch key that LibTorch itself does not use, below autograd and above every kernel.
constexpr c10::DispatchKey kRecorded = c10::DispatchKey::Fake;
constexpr const char* kReadsBack[] = {"aten::_local_scalar_dense", "aten::nonzero", "aten::equal"};

struct Recording {
  std::vector<std::function<void(const std::vector<uint64_t>& seeds)>> work;
  std::map<void*, size_t> own;             // The graph's memory blocks, with their sizes in bytes.
  std::map<void*, std::string> of_others;  // All other memory that ops use, with its content before the first such op.
  size_t num_seeds = 0;
  int num_ops = 0;

  void Keep(const at::Tensor& tensor) {
    if (!tensor.defined() || !tensor.has_storage()) {
      return;
    }
    const c10::Storage& storage = tensor.storage();
    void* const data = storage.mutable_data();
    if (const auto block = own.find(data); block != own.end()) {
      // On a GPU, a number that LibTorch wrapped in a tensor is passed to the kernel by value and has no memory.
      block->second = tensor.unsafeGetTensorImpl()->is_wrapped_number() ? 0 : block->second;
    } else if (data != nullptr) {
      of_others.try_emplace(data, static_cast<const char*>(data), storage.nbytes());
    }
  }

  void PutBack() {
    for (const auto& [data, bytes] : of_others) {
      std::memcpy(data, bytes.data(), bytes.size());
    }
    of_others.clear();
  }

  void Spoil() {
    for (const auto& [data, bytes] : own) {
      std::memset(data, 0xFF, bytes);
    }
  }
};

Recording* under_way = nullptr;
std::map<std::string, int>* counts = nullptr;  // Set while CountOps runs.
int num_recorded = 0;                          // Number of recordings that exist now.
bool replays = false;

// Allocates memory for recordings. The memory is never freed, because a tensor may use it longer than its graph exists.
class PoolAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (under_way == nullptr && num_recorded > 0 && !replays && static_cast<int64_t>(bytes) > FreeBytes()) {
      throw c10::OutOfMemoryError({__func__, __FILE__, __LINE__}, "the recording has all memory");
    }
    void* const data = bytes == 0 ? nullptr : c10::alloc_cpu(bytes);
    if (under_way != nullptr && data != nullptr) {
      under_way->own[data] = bytes;
      const std::lock_guard<std::mutex> lock(mutex_);
      pooled_.insert(data);
    }
    return {data, data, &Free, c10::Device(c10::DeviceType::CPU)};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }

  static PoolAllocator& Get() {
    static auto* const pool = new PoolAllocator;
    return *pool;
  }

 private:
  static void Free(void* data) {
    PoolAllocator& pool = Get();
    const std::lock_guard<std::mutex> lock(pool.mutex_);
    if (!pool.pooled_.contains(data)) {
      c10::free_cpu(data);
    }
  }

  std::mutex mutex_;
  std::set<void*> pooled_;
};

void InstallPool() {
  constexpr uint8_t kAboveTheDefault = 100;
  c10::SetCPUAllocator(&PoolAllocator::Get(), kAboveTheDefault);
}

// Returns a copy of `value` in which every tensor is replaced by the result of `visit` on it.
template <typename Visit>
IValue MapTensors(const IValue& value, const Visit& visit) {
  if (value.isTensor()) {
    return visit(value.toTensor());
  }
  if (value.isTensorList()) {
    c10::List<at::Tensor> list;
    for (const at::Tensor& tensor : value.toTensorVector()) {
      list.push_back(visit(tensor));
    }
    return list;
  }
  if (value.isOptionalTensorList()) {
    c10::List<std::optional<at::Tensor>> list;
    for (const std::optional<at::Tensor>& tensor : value.toOptionalTensorVector()) {
      list.push_back(tensor.has_value() ? std::optional(visit(*tensor)) : std::nullopt);
    }
    return list;
  }
  return value;
}

// A tensor with the same memory but without autograd's metadata, which would keep autograd's graph alive.
at::Tensor Plain(const at::Tensor& tensor) { return tensor.defined() ? tensor.tensor_data() : tensor; }

Stack LastOf(const Stack& stack, size_t count) {
  Stack last;
  for (auto it = stack.end() - static_cast<std::ptrdiff_t>(count); it != stack.end(); ++it) {
    last.push_back(MapTensors(*it, Plain));
  }
  return last;
}

void Overwrite(const at::Tensor& recorded, const at::Tensor& result) {
  if (recorded.defined() && recorded.const_data_ptr() != result.const_data_ptr()) {
    recorded.copy_(result);
  }
}

void Overwrite(const IValue& recorded, const IValue& result) {
  if (recorded.isTensor()) {
    Overwrite(recorded.toTensor(), result.toTensor());
  } else if (recorded.isTensorList()) {
    const std::vector<at::Tensor> results = result.toTensorVector();
    for (size_t i = 0; i < results.size(); ++i) {
      Overwrite(recorded.toTensorVector()[i], results[i]);
    }
  }
}

void RecordOp(const c10::OperatorHandle& op, c10::DispatchKeySet keys, Stack* stack) {
  const c10::impl::ExcludeDispatchKeyGuard inner_ops_run(kRecorded);
  const std::string& name = op.schema().name();
  if (counts != nullptr) {
    ++(*counts)[name];
    op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorded), stack);
    return;
  }
  TORCH_CHECK(std::find(std::begin(kReadsBack), std::end(kReadsBack), name) == std::end(kReadsBack), name,
              " reads from the device");
  TORCH_CHECK(++under_way->num_ops != FailingOp(), "the recording was broken off at ", name);
  const Stack arguments = LastOf(*stack, op.schema().arguments().size());
  for (const IValue& argument : arguments) {
    MapTensors(argument, [](const at::Tensor& tensor) {
      under_way->Keep(tensor);
      return tensor;
    });
  }
  op.redispatchBoxed(keys & c10::DispatchKeySet(c10::DispatchKeySet::FULL_AFTER, kRecorded), stack);
  const Stack results = LastOf(*stack, op.schema().returns().size());
  under_way->work.push_back([op, arguments, results](const std::vector<uint64_t>&) {
    const at::AutoDispatchBelowADInplaceOrView without_autograd;
    Stack again = arguments;
    op.callBoxed(again);
    for (size_t i = 0; i < results.size(); ++i) {
      Overwrite(results[i], again[i]);
    }
  });
}

class RecordedGraph final : public StepGraph {
 public:
  ~RecordedGraph() override { num_recorded -= recorded_ ? 1 : 0; }

  void WarmUp(absl::FunctionRef<void()> step) override {
    ++GraphCounts().warm_ups;
    step();
  }

  std::string Capture(size_t num_seeds, absl::FunctionRef<void()> step) override {
    ++GraphCounts().recordings;
    recording_.num_seeds = num_seeds;
    under_way = &recording_;
    std::string why;
    try {
      const c10::impl::IncludeDispatchKeyGuard record(kRecorded);
      step();
    } catch (const c10::Error& error) {
      why = error.what_without_backtrace();
    }
    under_way = nullptr;
    recording_.PutBack();
    recorded_ = why.empty();
    num_recorded += recorded_ ? 1 : 0;
    return why;
  }

  void UseSeed(size_t number) override {
    TORCH_CHECK(number < recording_.num_seeds, "there is no seed ", number);
    recording_.work.emplace_back([number](const std::vector<uint64_t>& seeds) {
      at::Generator generator = at::globalContext().defaultGenerator(at::kCPU);
      generator.set_current_seed(seeds[number]);
    });
  }

  void Replay(const std::vector<uint64_t>& seeds) override {
    ++GraphCounts().replays;
    TORCH_CHECK(seeds.size() == recording_.num_seeds, "a replay was given ", seeds.size(), " seeds");
    recording_.Spoil();
    replays = true;
    for (const auto& work : recording_.work) {
      work(seeds);
    }
    replays = false;
  }

  Memory memory() const override {
    TORCH_CHECK(recorded_, "nothing was recorded");
    Memory memory{.free_bytes = FreeBytes()};
    for (const auto& [data, bytes] : recording_.own) {
      memory.own_bytes += static_cast<int64_t>(bytes);
    }
    return memory;
  }

 private:
  Recording recording_;
  bool recorded_ = false;
};

// Taken() returns the form in which a recorded launch keeps an argument: the value itself or, for a pointer to a struct
// on the host's stack, a copy of the struct. Given() returns the argument for a replay.
template <typename T>
T Taken(T argument) {
  return argument;
}
template <typename T>
T Given(T argument) {
  return argument;
}
using kernels::AdamStep;
using kernels::CudaBatchNormBackward;
using kernels::CudaBatchNormForward;
using kernels::CudaColumnSum;
using kernels::CudaCrossEntropy;
using kernels::CudaFp8Matrix;
using kernels::CudaLayerNorm;
using kernels::CudaLayerNormBackward;
using kernels::CudaPixels;
using kernels::SgdStep;
AdamStep Taken(const AdamStep* step) { return *step; }
SgdStep Taken(const SgdStep* step) { return *step; }
const AdamStep* Given(const AdamStep& step) { return &step; }
const SgdStep* Given(const SgdStep& step) { return &step; }
CudaFp8Matrix Taken(const CudaFp8Matrix* matrix) { return *matrix; }
const CudaFp8Matrix* Given(const CudaFp8Matrix& matrix) { return &matrix; }
CudaCrossEntropy Taken(const CudaCrossEntropy* pass) { return *pass; }
const CudaCrossEntropy* Given(const CudaCrossEntropy& pass) { return &pass; }
CudaBatchNormForward Taken(const CudaBatchNormForward* pass) { return *pass; }
CudaBatchNormBackward Taken(const CudaBatchNormBackward* pass) { return *pass; }
const CudaBatchNormForward* Given(const CudaBatchNormForward& pass) { return &pass; }
const CudaBatchNormBackward* Given(const CudaBatchNormBackward& pass) { return &pass; }
CudaColumnSum Taken(const CudaColumnSum* pass) { return *pass; }
const CudaColumnSum* Given(const CudaColumnSum& pass) { return &pass; }
CudaLayerNorm Taken(const CudaLayerNorm* norm) { return *norm; }
const CudaLayerNorm* Given(const CudaLayerNorm& norm) { return &norm; }
CudaLayerNormBackward Taken(const CudaLayerNormBackward* norm) { return *norm; }
const CudaLayerNormBackward* Given(const CudaLayerNormBackward& norm) { return &norm; }

CudaPixels Taken(const CudaPixels* pass) { return *pass; }
const CudaPixels* Given(const CudaPixels& pass) { return &pass; }

const kernels::CudaKernels& Emulated() {
  std::string why;
  return *kernels::KernelsUnderTest(&why);
}

template <typename Table>
const Table& EmulatedTable();
template <>
const kernels::CudaKernels& EmulatedTable() {
  return Emulated();
}
template <>
const kernels::CudaFp8Kernels& EmulatedTable() {
  return *Emulated().fp8;
}
template <>
const kernels::CudaLossKernels& EmulatedTable() {
  return *Emulated().loss;
}
template <>
const kernels::CudaBatchNormKernels& EmulatedTable() {
  return *Emulated().batch_norm;
}
template <>
const kernels::CudaLayerNormKernels& EmulatedTable() {
  return *Emulated().layer_norm;
}
template <>
const kernels::CudaColumnSumKernels& EmulatedTable() {
  return *Emulated().column_sum;
}

template <>
const kernels::CudaPixelKernels& EmulatedTable() {
  return *Emulated().pixels;
}

template <auto kKernel>
struct Recordable;
template <typename Table, typename... Arguments, int (*Table::*kKernel)(Arguments...)>
struct Recordable<kKernel> {
  static int Launch(Arguments... arguments) {
    if (under_way == nullptr) {
      return (EmulatedTable<Table>().*kKernel)(arguments...);
    }
    under_way->work.emplace_back([... taken = Taken(arguments)](const std::vector<uint64_t>&) {
      TORCH_CHECK((EmulatedTable<Table>().*kKernel)(Given(taken)...) == 0, "a recorded launch failed");
    });
    return 0;
  }
};

const kernels::CudaFp8Kernels& RecordableFp8Kernels() {
  using Kernels = kernels::CudaFp8Kernels;
  static constexpr Kernels kRecordable = {.quantize_tensor = Recordable<&Kernels::quantize_tensor>::Launch,
                                          .quantize_rows = Recordable<&Kernels::quantize_rows>::Launch,
                                          .quantize_squares = Recordable<&Kernels::quantize_squares>::Launch};
  return kRecordable;
}

const kernels::CudaLossKernels& RecordableLossKernels() {
  using Kernels = kernels::CudaLossKernels;
  static constexpr Kernels kRecordable = {
      .cross_entropy = Recordable<&Kernels::cross_entropy>::Launch,
      .cross_entropy_backward = Recordable<&Kernels::cross_entropy_backward>::Launch};
  return kRecordable;
}

const kernels::CudaBatchNormKernels& RecordableBatchNormKernels() {
  using Kernels = kernels::CudaBatchNormKernels;
  static constexpr Kernels kRecordable = {.forward = Recordable<&Kernels::forward>::Launch,
                                          .backward = Recordable<&Kernels::backward>::Launch};
  return kRecordable;
}

const kernels::CudaLayerNormKernels& RecordableLayerNormKernels() {
  using Kernels = kernels::CudaLayerNormKernels;
  static constexpr Kernels kRecordable = {.forward = Recordable<&Kernels::forward>::Launch,
                                          .backward = Recordable<&Kernels::backward>::Launch};
  return kRecordable;
}

const kernels::CudaColumnSumKernels& RecordableColumnSumKernels() {
  using Kernels = kernels::CudaColumnSumKernels;
  static constexpr Kernels kRecordable = {.sum_columns = Recordable<&Kernels::sum_columns>::Launch};
  return kRecordable;
}

const kernels::CudaPixelKernels& RecordablePixelKernels() {
  using Kernels = kernels::CudaPixelKernels;
  static constexpr Kernels kRecordable = {.map = Recordable<&Kernels::map>::Launch};
  return kRecordable;
}

// Copies immediately, because on the CPU no copy needs to be waited for.
class PlainCopies final : public InputCopies {
 public:
  void Copy(const std::vector<TensorCopy>& copies) override {
    for (const TensorCopy& copy : copies) {
      copy.to.copy_(copy.from);
    }
  }
};

}  // namespace

TORCH_LIBRARY_IMPL(_, Fake, library) { library.fallback(torch::CppFunction::makeFromBoxedFunction<&RecordOp>()); }

RecordedGraphCounts& GraphCounts() {
  static RecordedGraphCounts counts;
  return counts;
}

std::map<std::string, int> CountOps(absl::FunctionRef<void()> work) {
  std::map<std::string, int> made;
  counts = &made;
  const absl::Cleanup reset = [] { counts = nullptr; };
  const c10::impl::IncludeDispatchKeyGuard count(kRecorded);
  work();
  return made;
}

int& FailingOp() {
  static int number = 0;
  return number;
}

int64_t& FreeBytes() {
  static int64_t bytes = std::numeric_limits<int64_t>::max();
  return bytes;
}

const StepGraphs* RecordedGraphs() {
  InstallPool();
  static constexpr StepGraphs kGraphs = {
      .version = kStepGraphsVersion,
      .make = [](c10::Device) -> std::unique_ptr<StepGraph> { return std::make_unique<RecordedGraph>(); },
      .make_copies = [](c10::Device) -> std::unique_ptr<InputCopies> { return std::make_unique<PlainCopies>(); },
      .forbid_waits = [](bool) {}};
  return &kGraphs;
}

const kernels::CudaKernels* RecordableKernels() {
  using Kernels = kernels::CudaKernels;
  static const Kernels recordable = [] {
    Kernels made = Emulated();
    made.compute_grad_stats = Recordable<&Kernels::compute_grad_stats>::Launch;
    made.accumulate = Recordable<&Kernels::accumulate>::Launch;
    made.decide = Recordable<&Kernels::decide>::Launch;
    made.update_adam = Recordable<&Kernels::update_adam>::Launch;
    made.update_sgd = Recordable<&Kernels::update_sgd>::Launch;
    made.end_step = Recordable<&Kernels::end_step>::Launch;
    made.round = Recordable<&Kernels::round>::Launch;
    made.copy = Recordable<&Kernels::copy>::Launch;
    made.fp8 = &RecordableFp8Kernels();
    made.loss = &RecordableLossKernels();
    made.batch_norm = &RecordableBatchNormKernels();
    made.layer_norm = &RecordableLayerNormKernels();
    made.column_sum = &RecordableColumnSumKernels();
    made.pixels = &RecordablePixelKernels();
    return made;
  }();
  return &recordable;
}

}  // namespace ampd::amp
