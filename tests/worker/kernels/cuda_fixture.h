#pragma once

#include <gtest/gtest.h>

#include <string>

#include "tests/worker/kernels/kernels_under_test.h"

namespace ampd::kernels {

// A fixture with the kernels under test. It skips the test if they cannot run on this machine.
class CudaTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string why;
    kernels_ = KernelsUnderTest(&why);
    if (kernels_ == nullptr) {
      GTEST_SKIP() << why;
    }
  }

  const CudaKernels* kernels_ = nullptr;
};

}  // namespace ampd::kernels
