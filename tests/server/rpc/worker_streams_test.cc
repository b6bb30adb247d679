#include "server/rpc/worker_streams.h"

#include <gtest/gtest.h>

#include "absl/strings/str_cat.h"

namespace ampd::server {
namespace {

class QuietStream final : public WorkerStream {
 public:
  void DirectiveDue() override {}
  void End(bool /*replaced*/) override {}
};

// An allocator that counts the blocks that are allocated now. The block of an object stays allocated while a weak
// pointer to the object exists.
template <typename T>
struct CountingAllocator {
  using value_type = T;
  explicit CountingAllocator(int* num_blocks) : num_blocks(num_blocks) {}
  template <typename U>
  explicit CountingAllocator(const CountingAllocator<U>& other) : num_blocks(other.num_blocks) {}
  T* allocate(size_t count) {
    ++*num_blocks;
    return std::allocator<T>().allocate(count);
  }
  void deallocate(T* block, size_t count) {
    --*num_blocks;
    std::allocator<T>().deallocate(block, count);
  }
  int* num_blocks;
};

TEST(WorkerStreams, StreamsThatHaveEnded_AreForgottenWhenAnotherOneComes) {
  int num_blocks = 0;
  WorkerStreams streams;
  for (int i = 0; i < 100; ++i) {
    const auto stream = std::allocate_shared<QuietStream>(CountingAllocator<QuietStream>(&num_blocks));
    streams.Attach(absl::StrCat("pod-", i), stream);
  }
  EXPECT_LE(num_blocks, 1);
}

}  // namespace
}  // namespace ampd::server
