#pragma once

#include <cuda_runtime.h>
#include <gtest/gtest.h>

#include <vector>

#include "tests/worker/kernels/row_fixtures.h"

namespace ampd::kernels {

// A copy in device memory of a host array, including the guard bytes around it. `misaligned_by`: by how many bytes the
// copy is shifted off the alignment that wide accesses need.
class DeviceBytes {
 public:
  explicit DeviceBytes(const Bytes& content, size_t misaligned_by = 0) : size_(content.size()), begin_(misaligned_by) {
    EXPECT_EQ(cudaMalloc(&data_, begin_ + size_), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(as<void>(), content.data(), size_, cudaMemcpyDefault), cudaSuccess);
  }
  // Returns device memory that holds a single value.
  template <typename T>
  static DeviceBytes Of(const T& value) {
    return DeviceBytes(BytesFrom(std::vector<T>{value}));
  }
  ~DeviceBytes() { cudaFree(data_); }
  DeviceBytes(const DeviceBytes&) = delete;

  template <typename T>
  T* as() const {
    return reinterpret_cast<T*>(static_cast<std::byte*>(data_) + begin_);
  }

  Bytes Read() const {
    Bytes content(size_);
    EXPECT_EQ(cudaDeviceSynchronize(), cudaSuccess);
    EXPECT_EQ(cudaMemcpy(content.data(), as<void>(), size_, cudaMemcpyDefault), cudaSuccess);
    return content;
  }

  template <typename T>
  std::vector<T> ReadAs() const {
    return ValuesFrom<T>(Read());
  }

 private:
  void* data_ = nullptr;
  size_t size_;
  size_t begin_;
};

}  // namespace ampd::kernels
