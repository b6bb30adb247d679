#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/data_file.h"

namespace ampd::data {

// Returns a gzip file of the content.
std::string Gzip(const std::string& content);

// A fixture that gives each test a folder of its own as data root.
class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest();
  ~DataFolderTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& content);
  // A data file in the folder `below` of root_, which is the file's data root. Its name in messages is its path.
  DataFile At(const std::string& path, const std::string& below = ".") const {
    return {.root = root_ / below, .path = path, .name = path};
  }

  std::filesystem::path root_;
};

}  // namespace ampd::data
