#include "data/images/image_folder.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <png.h>

#include <filesystem>
#include <fstream>

#include "base/formats/safetensors.h"
#include "base/io/file.h"
#include "tests/data/images/picture_files.h"

namespace ampd::images {
namespace {

using ::testing::ElementsAre;
using ::testing::EndsWith;
using ::testing::HasSubstr;

class ImageFolderTest : public testing::Test {
 protected:
  void SetUp() override {
    std::string pattern = testing::TempDir() + "/images-XXXXXX";
    root_ = mkdtemp(pattern.data());
    Write("set/cat/b.png", PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {1, 2, 3}));
    Write("set/cat/a.PNG", PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {4, 5, 6}));
    Write("set/ant/x.jpeg", JpegFile({1, 1, {90, 90, 90}}));
    Write("set/ant/notes.txt", "no picture");
    Write("set/.hidden", "");
  }
  void TearDown() override { std::filesystem::remove_all(root_); }
  void Write(const std::string& name, const std::string& content) {
    std::filesystem::create_directories((root_ / name).parent_path());
    std::ofstream(root_ / name, std::ios::binary) << content;
  }
  PackOptions Options() { return {.folder = root_ / "set", .destination = root_ / "out", .width = 1, .height = 1}; }
  std::string Written() { return ReadFile(root_ / "out", 1 << 20).value_or(""); }

  std::filesystem::path root_;
};

TEST_F(ImageFolderTest, Classes_AreNumberedByNameAndKept) {
  const auto packed = PackFolder(Options());
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_THAT(packed->classes, ElementsAre("ant", "cat"));
  EXPECT_THAT(packed->num_images, ElementsAre(1, 2));
  EXPECT_EQ(packed->num_skipped, 2);
  const std::string content = Written();
  const auto file = ParseSafetensors(content);
  ASSERT_TRUE(file.ok()) << file.status();
  EXPECT_EQ(file->header.metadata.at("classes"), "[\"ant\",\"cat\"]");
  ASSERT_EQ(file->header.tensors.size(), 2u);
  EXPECT_EQ(file->header.tensors[0], (TensorEntry{"images", "U8", {3, 3, 1, 1}, 0, 9}));
  EXPECT_EQ(file->header.tensors[1], (TensorEntry{"labels", "I32", {3}, 9, 21}));
  EXPECT_EQ(file->data.substr(3, 6), "\4\5\6\1\2\3") << "a.PNG comes before b.png";
  EXPECT_EQ(file->data.substr(9), std::string("\0\0\0\0\1\0\0\0\1\0\0\0", 12));
}

TEST_F(ImageFolderTest, GreyImages_HaveOneChannelOfPillowsWeights) {
  PackOptions options = Options();
  options.grey = true;
  ASSERT_TRUE(PackFolder(options).ok());
  const std::string content = Written();
  const auto file = ParseSafetensors(content);
  EXPECT_EQ(file->header.tensors[0].shape, (std::vector<int64_t>{3, 1, 1, 1}));
  EXPECT_EQ(file->data.substr(0, 3), "\x5a\x05\x02");
}

TEST_F(ImageFolderTest, Pictures_AreCutToTheMiddleOrStretched) {
  std::filesystem::remove_all(root_ / "set");
  Write("set/one/wide.png", PngFile(3, 1, PNG_COLOR_TYPE_GRAY, 8, {0, 90, 180}));
  PackOptions options = Options();
  options.grey = true;
  ASSERT_TRUE(PackFolder(options).ok());
  EXPECT_EQ(ParseSafetensors(Written())->header.tensors[0].end, 1u);
  EXPECT_EQ(static_cast<unsigned char>(ParseSafetensors(Written())->data[0]), 90);
  options.replace = true;
  options.width = 3;
  options.height = 3;
  options.stretch = true;
  ASSERT_TRUE(PackFolder(options).ok());
  const std::string content = Written();
  EXPECT_EQ(ParseSafetensors(content)->data.substr(3, 3), std::string("\0\x5a\xb4", 3));
}

TEST_F(ImageFolderTest, APictureThatIsDamaged_IsNamedAndNothingIsLeft) {
  Write("set/cat/c.png", "\x89PNG\r\n\x1a\n");
  const absl::Status status = PackFolder(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kDataLoss);
  EXPECT_THAT(std::string(status.message()), HasSubstr("set/cat/c.png: is no sound PNG"));
  PackOptions stopped = Options();
  stopped.progress = [](int64_t, int64_t) { return false; };
  EXPECT_EQ(PackFolder(stopped).status().code(), absl::StatusCode::kCancelled);
  EXPECT_EQ(std::distance(std::filesystem::directory_iterator(root_), {}), 1);
}

TEST_F(ImageFolderTest, FoldersThatAreNoClasses_AreRefused) {
  std::filesystem::create_directories(root_ / "set/empty");
  EXPECT_THAT(std::string(PackFolder(Options()).status().message()),
              HasSubstr("set/empty: has no .png, .jpg or .jpeg"));
  std::filesystem::remove_all(root_ / "set");
  EXPECT_EQ(PackFolder(Options()).status().code(), absl::StatusCode::kNotFound);
  std::filesystem::create_directories(root_ / "set");
  EXPECT_THAT(std::string(PackFolder(Options()).status().message()), HasSubstr("has 0 folders"));
}

// The pictures are in the order of torchvision's ImageFolder. tests/parity/pack_test.py compares the two.
TEST_F(ImageFolderTest, FoldersInClasses_AreOfTheClass) {
  Write("set/cat/deep/er/a.png", PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {7, 0, 0}));
  Write("set/cat/deep-x/a.png", PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {8, 0, 0}));
  Write("set/.hidden.class/.a.png", PngFile(1, 1, PNG_COLOR_TYPE_RGB, 8, {9, 0, 0}));
  const auto packed = PackFolder(Options());
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_THAT(packed->classes, ElementsAre(".hidden.class", "ant", "cat"));
  EXPECT_THAT(packed->num_images, ElementsAre(1, 1, 4));
  const std::string content = Written();
  const std::string_view pixels = ParseSafetensors(content)->data;
  EXPECT_EQ(pixels[0], 9);
  EXPECT_EQ(pixels.substr(6, 6), "\4\5\6\1\2\3");
  EXPECT_EQ(pixels[12], 8) << "\"deep-x\" comes before \"deep/er\"";
  EXPECT_EQ(pixels[15], 7);
}

TEST_F(ImageFolderTest, Links_AreFollowed) {
  std::filesystem::create_symlink(root_ / "set/cat/a.PNG", root_ / "set/cat/link.png");
  std::filesystem::create_directory_symlink(root_ / "set/cat", root_ / "set/dog");
  std::filesystem::create_symlink(root_ / "nowhere", root_ / "set/cat/broken");
  const auto packed = PackFolder(Options());
  ASSERT_TRUE(packed.ok()) << packed.status();
  EXPECT_THAT(packed->classes, ElementsAre("ant", "cat", "dog"));
  EXPECT_THAT(packed->num_images, ElementsAre(1, 3, 3));
}

TEST_F(ImageFolderTest, ALinkThatLeadsInACircle_IsRefused) {
  std::filesystem::create_directories(root_ / "set/cat/deep");
  std::filesystem::create_directory_symlink(root_ / "set/cat", root_ / "set/cat/deep/again");
  const absl::Status status = PackFolder(Options()).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()),
              EndsWith("set/cat/deep/again: a link that leads back to a folder it lies in"));
}

TEST_F(ImageFolderTest, PicturesThatAreNotLookedAt_AreRefusedWhereImageFolderTakesThem) {
  for (const char* name : {"x.webp", "x.BMP", "x.tif", "x.tiff", "x.ppm", "x.pgm"}) {
    Write(std::string("set/cat/") + name, "");
    EXPECT_THAT(
        std::string(PackFolder(Options()).status().message()),
        HasSubstr(std::string("set/cat/") + name + ": is named as a picture that ImageFolder takes; convert it"));
    std::filesystem::remove(root_ / "set/cat" / name);
  }
  Write("set/cat/x.gif", "");
  EXPECT_TRUE(PackFolder(Options()).ok());
  std::filesystem::remove(root_ / "out");
  Write("set/cat/broken.png", "");
  EXPECT_EQ(PackFolder(Options()).status().code(), absl::StatusCode::kDataLoss);
}

TEST_F(ImageFolderTest, MoreThanAJobTakes_IsRefusedBeforeAnythingIsRead) {
  PackOptions options = Options();
  options.width = 16384;
  options.height = 65536;
  const absl::Status status = PackFolder(options).status();
  EXPECT_EQ(status.code(), absl::StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(status.message()), EndsWith("that a job takes; make them smaller"));
}

}  // namespace
}  // namespace ampd::images
