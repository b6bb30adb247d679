#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/data_file.h"

namespace ampd::data {

// Compressed as gzip does it.
std::string Gzip(const std::string& content);

// A case with a folder of its own that is a data root.
class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest();
  ~DataFolderTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& content);
  // Messages call it by its path. `below`: the data root's folder.
  DataFile At(const std::string& path, const std::string& below = ".") const {
    return {.root = root_ / below, .path = path, .name = path};
  }

  std::filesystem::path root_;
};

}  // namespace ampd::data
