#include "data/text/text_file.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cctype>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "base/random.h"

namespace ampd::text {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

class TextFileTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/text-XXXXXX";
    path_ = std::string(mkdtemp(pattern.data())) + "/text";
  }
  void TearDown() override { std::filesystem::remove_all(std::filesystem::path(path_).parent_path()); }

  TextFile With(const std::string& content) {
    std::ofstream(path_, std::ios::binary) << content;
    return *TextFile::Open(path_);
  }

  std::string path_;
};

TEST_F(TextFileTest, Pieces_AreTheWholeTextAndEndBehindWords) {
  const std::vector<std::string> parts = {"word", "x", "1", "é", " ", "  ", "\n", "\t"};
  SeededRandom random(5);
  std::string content;
  while (content.size() < 5'000'000) {
    content += parts[random.Next() % parts.size()];
  }
  TextFile file = With(content);
  EXPECT_EQ(file.num_bytes(), static_cast<int64_t>(content.size()));
  std::string read;
  int num_pieces = 0;
  while (true) {
    const auto piece = file.Next(/*any_bytes=*/false);
    ASSERT_TRUE(piece.ok()) << piece.status();
    if (piece->empty()) {
      break;
    }
    ++num_pieces;
    if (!read.empty()) {
      EXPECT_TRUE(piece->front() == ' ' || piece->front() == '\n');
      EXPECT_TRUE(std::isgraph(static_cast<unsigned char>(read.back())));
    }
    read += *piece;
    EXPECT_EQ(file.num_read(), static_cast<int64_t>(read.size()));
  }
  EXPECT_EQ(read, content);
  EXPECT_GT(num_pieces, 4);
}

TEST_F(TextFileTest, AWordLongerThanAPiece_StaysWhole) {
  const std::string word(3'000'000, 'a');
  std::string content = word;
  for (int i = 0; i < 2'000'000; ++i) {
    content += " b";
  }
  TextFile file = With(content);
  std::string read(*file.Next(false));
  EXPECT_GE(read.size(), word.size());
  EXPECT_LT(read.size(), content.size());
  for (std::string piece(*file.Next(false)); !piece.empty(); piece = *file.Next(false)) {
    read += piece;
  }
  EXPECT_EQ(read, content);
}

TEST_F(TextFileTest, BytesThatAreNotUtf8_AreNamedByTheirPlaceInTheFile) {
  std::string content = "a";
  while (content.size() < 2'000'001) {
    content += " a";
  }
  content += "\xff";
  TextFile file = With(content);
  ASSERT_TRUE(file.Next(false).ok());
  const absl::Status status = file.Next(false).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("byte 2000001 is not UTF-8"));
  TextFile bytes = With(content);
  int64_t num_read = 0;
  for (auto piece = bytes.Next(true); !piece->empty(); piece = bytes.Next(true)) {
    num_read += static_cast<int64_t>(piece->size());
  }
  EXPECT_EQ(num_read, bytes.num_bytes());
}

TEST_F(TextFileTest, Lines_AreGivenWithoutTheirEnds) {
  TextFile file = With("one\ntwo\r\n\nlast");
  std::vector<std::string> lines;
  std::vector<std::string> breaks;
  bool found = true;
  for (auto line = file.NextLine(&found); found; line = file.NextLine(&found)) {
    lines.emplace_back(*line);
    breaks.emplace_back(file.line_break());
  }
  EXPECT_THAT(lines, ElementsAre("one", "two", "", "last"));
  EXPECT_THAT(breaks, ElementsAre("\n", "\r\n", "\n", testing::_));
  EXPECT_EQ(file.num_read(), file.num_bytes());
}

TEST_F(TextFileTest, ManyAndLongLines_AreAllThere) {
  std::string content;
  std::vector<size_t> sizes;
  for (size_t i = 0; i < 40; ++i) {
    sizes.push_back(i * 30011);
    content += std::string(sizes.back(), static_cast<char>('a' + i % 26)) + "\n";
  }
  TextFile file = With(content);
  bool found = true;
  for (const size_t size : sizes) {
    const auto line = file.NextLine(&found);
    ASSERT_TRUE(found);
    ASSERT_EQ(line->size(), size);
  }
  (void)file.NextLine(&found);
  EXPECT_FALSE(found);
}

TEST_F(TextFileTest, WhatIsNoFile_IsRefusedByName) {
  EXPECT_EQ(TextFile::Open(path_).status().code(), absl::StatusCode::kNotFound);
  const auto folder = TextFile::Open(std::filesystem::path(path_).parent_path());
  EXPECT_EQ(folder.status().code(), absl::StatusCode::kFailedPrecondition);
}

}  // namespace
}  // namespace ampd::text
