#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <cstdlib>

#include "absl/strings/numbers.h"

namespace ampd {

// Returns the whole number in the environment variable `name`, or `otherwise` if the variable is not set. Tests read
// from the environment their seeds and how often they repeat something. A value that is not a number fails the test.
inline int64_t CountFromEnvironment(const char* name, int64_t otherwise) {
  const char* const text = std::getenv(name);
  int64_t count = otherwise;
  EXPECT_TRUE(text == nullptr || absl::SimpleAtoi(text, &count)) << name << "=" << text << " is no whole number";
  return count;
}

}  // namespace ampd
