#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <string>

#include "absl/status/statusor.h"
#include "base/io/file.h"

namespace ampd {

// Compares `text` with the expected text in a golden file. `path` is relative to the source folder. If
// AMPD_UPDATE_GOLDEN is set, writes `text` to the file instead, so that the change can be reviewed.
inline void ExpectGolden(const std::string& path, const std::string& text) {
  const std::string file = std::string(AMPD_SOURCE_DIR) + "/" + path;
  if (std::getenv("AMPD_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(file, text).ok());
    return;
  }
  const auto golden = ReadFile(file, 1 << 20);
  ASSERT_TRUE(golden.ok()) << golden.status().message() << "; AMPD_UPDATE_GOLDEN=1 writes it";
  EXPECT_EQ(*golden, text) << "differs from " << path << "; AMPD_UPDATE_GOLDEN=1 rewrites it";
}

}  // namespace ampd
