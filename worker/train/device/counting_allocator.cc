#include "worker/train/device/counting_allocator.h"

#include <malloc.h>
#include <sys/mman.h>
#include <unistd.h>

#include <atomic>
#include <cstdint>
#include <cstring>

#include "c10/core/Allocator.h"
#include "c10/core/CPUAllocator.h"
#include "c10/core/impl/alloc_cpu.h"

namespace ampd::train {
namespace {

constexpr size_t kLargePageBytes = 2 << 20;

// Size of the header that precedes every allocated block. It equals the alignment that LibTorch guarantees for tensors.
constexpr size_t kHeaderBytes = 64;

std::atomic<int64_t> allocated = 0;
std::atomic<int64_t> peak = 0;

void Add(int64_t bytes) {
  const int64_t now = allocated.fetch_add(bytes, std::memory_order_relaxed) + bytes;
  int64_t most = peak.load(std::memory_order_relaxed);
  while (now > most && !peak.compare_exchange_weak(most, now, std::memory_order_relaxed)) {
  }
}

void Free(void* data) {
  if (data == nullptr) {
    return;
  }
  char* block = static_cast<char*>(data) - kHeaderBytes;
  int64_t bytes = 0;
  std::memcpy(&bytes, block, sizeof(bytes));
  allocated.fetch_sub(bytes, std::memory_order_relaxed);
  c10::free_cpu(block);
}

// Asks the kernel to back a large block with pages of 2 MB, including the whole large page in which the block ends. A
// pass over the block then misses the TLB 512 times less often. The call is a hint: if the kernel ignores it, the block
// is still usable.
void AskForLargePages(const char* block, size_t bytes) {
  if (bytes < kLargePageBytes) {
    return;
  }
  static const auto page = static_cast<uintptr_t>(sysconf(_SC_PAGESIZE));
  const auto address = reinterpret_cast<uintptr_t>(block);
  const uintptr_t begin = address / page * page;
  const uintptr_t end = (address + bytes + kLargePageBytes - 1) / kLargePageBytes * kLargePageBytes;
  (void)madvise(reinterpret_cast<void*>(begin), end - begin, MADV_HUGEPAGE);
}

class CountingAllocator final : public c10::Allocator {
 public:
  c10::DataPtr allocate(size_t bytes) override {
    if (bytes == 0) {
      return {nullptr, nullptr, &Free, c10::DeviceType::CPU};
    }
    char* block = static_cast<char*>(c10::alloc_cpu(bytes + kHeaderBytes));
    AskForLargePages(block, bytes + kHeaderBytes);
    const auto counted = static_cast<int64_t>(bytes);
    std::memcpy(block, &counted, sizeof(counted));
    Add(counted);
    char* data = block + kHeaderBytes;
    return {data, data, &Free, c10::DeviceType::CPU};
  }
  c10::DeleterFnPtr raw_deleter() const override { return &Free; }
  void copy_data(void* to, const void* from, size_t bytes) const override { default_copy_data(to, from, bytes); }
};

void KeepFreedMemory() {
  constexpr int kNever = -1;
  mallopt(M_TRIM_THRESHOLD, kNever);
  mallopt(M_MMAP_THRESHOLD, 1 << 30);
  mallopt(M_TOP_PAD, 32 * kLargePageBytes);  // Extends the heap by a whole number of large pages.
}

}  // namespace

void InstallCountingAllocator() {
  KeepFreedMemory();
  // The allocator is never destroyed, because tensors in static storage may still use it when the process ends.
  static auto* allocator = new CountingAllocator;
  constexpr uint8_t kAboveTheDefault = 100;
  c10::SetCPUAllocator(allocator, kAboveTheDefault);
}

CpuMemory GetCpuMemory() { return {allocated.load(), peak.load()}; }

void ResetPeakCpuMemory() { peak.store(allocated.load()); }

}  // namespace ampd::train
