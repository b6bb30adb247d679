#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

#include "data/data_file.h"

namespace ampd::data {

// Returns a gzip file of the content.
std::string Gzip(const std::string& content);

// A fixture that gives each test its own folder as data root.
class DataFolderTest : public testing::Test {
 protected:
  DataFolderTest();
  ~DataFolderTest() override { std::filesystem::remove_all(root_); }

  void Write(const std::string& name, const std::string& content);
  // Returns a data file whose data root is the folder `below` in root_. Messages name the file by its path.
  DataFile At(const std::string& path, const std::string& below = ".") const {
    return {.root = root_ / below, .path = path, .name = path};
  }

  std::filesystem::path root_;
};

}  // namespace ampd::data
