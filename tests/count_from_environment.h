#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace ampd {

// How often a test does something, or its seed: the whole number in the environment, or `otherwise` where that has
// none. What is no number fails the test.
inline int64_t CountFromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  int64_t count = otherwise;
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &count)) << name << "=" << text << " is no whole number";
  return count;
}

}  // namespace ampd
