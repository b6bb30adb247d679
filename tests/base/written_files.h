#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/random.h"

namespace ampd {

// A new folder with files that a test writes, such as those of /proc and /sys. It is deleted at the end of the test.
class WrittenFiles {
 public:
  WrittenFiles() : root_(testing::TempDir() + "/" + RandomId(SystemRandom(), 12)) {}
  ~WrittenFiles() {
    std::error_code ignored;
    std::filesystem::remove_all(root_, ignored);
  }
  WrittenFiles(const WrittenFiles&) = delete;
  WrittenFiles& operator=(const WrittenFiles&) = delete;

  // Writes the file at root() + path, and creates the folders of the path.
  void Write(const std::string& path, const std::string& text) const {
    const std::filesystem::path file = root_ + path;
    std::filesystem::create_directories(file.parent_path());
    std::ofstream(file) << text;
  }
  const std::string& root() const { return root_; }

 private:
  const std::string root_;
};

}  // namespace ampd
