#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/random.h"

namespace ampd {

// A new temporary folder that stands in for the root folder "/" in a test. For example, the test writes its own version
// of /proc/self/cgroup, and passes root() to code that reads root() + "/proc/self/cgroup". The destructor deletes the
// folder.
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
