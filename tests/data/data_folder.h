#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/data_file.h"

namespace ampd::data {

// Compresses as gzip does.
std::string Gzip(const std::string& content);

// A test with its own folder as data root.
class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest();
  ~DataFolderTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& content);
  // Messages use the path as its name. `below`: the data root, relative to root_.
  DataFile At(const std::string& path, const std::string& below = ".") const {
    return {.root = root_ / below, .path = path, .name = path};
  }

  std::filesystem::path root_;
};

}  // namespace ampd::data
