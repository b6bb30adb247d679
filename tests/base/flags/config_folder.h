#pragma once

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/io/file.h"

namespace ampd {

// A folder for configuration files. Deleted with the object.
class ConfigFolder {
 public:
  ConfigFolder() {
    std::string name = testing::TempDir() + "config-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~ConfigFolder() { std::filesystem::remove_all(folder_); }
  ConfigFolder(const ConfigFolder&) = delete;
  ConfigFolder& operator=(const ConfigFolder&) = delete;

  std::string Path(const std::string& name) const { return folder_ + "/" + name; }

  // Writes the file, and returns its path.
  std::string Write(const std::string& name, const std::string& text) const {
    EXPECT_TRUE(WriteFileAtomically(Path(name), text).ok()) << name;
    return Path(name);
  }

 private:
  std::string folder_;
};

}  // namespace ampd
