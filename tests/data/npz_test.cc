#include "data/npz.h"

#include <gmock/gmock.h>
#include <zip.h>

#include <fstream>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "data/npy.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr char kNpzDict[] = "{'descr': '|u1', 'fortran_order': False, 'shape': (4, 3), }";
constexpr char kElements[] = "abcdefghijkl";

struct Entry {
  std::string name;
  std::string content;
  int method = ZIP_CM_DEFLATE;
};

class NpzTest : public DataFolderTest {
 protected:
  void WriteZip(const std::vector<Entry>& entries, const char* password = nullptr) {
    zip_t* archive = zip_open((root_ / "f").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    for (const Entry& entry : entries) {
      zip_source_t* content = zip_source_buffer(archive, entry.content.data(), entry.content.size(), 0);
      const int64_t index = zip_file_add(archive, entry.name.c_str(), content, 0);
      ASSERT_GE(index, 0);
      ASSERT_EQ(zip_set_file_compression(archive, index, entry.method, 0), 0);
      if (password != nullptr) {
        ASSERT_EQ(zip_file_set_encryption(archive, index, ZIP_EM_AES_256, password), 0);
      }
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
  std::string Content() {
    std::ifstream file(root_ / "f", std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }
  absl::StatusOr<Array> Read(const std::string& name, int64_t limit = 0) {
    const auto npz = NpzFile::Open(At("f"));
    return npz.ok() ? npz->Read(name, limit) : npz.status();
  }
  std::string ErrorOf(const std::string& name) {
    const absl::Status status = Read(name).status();
    EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
    return std::string(status.message());
  }
};

TEST_F(NpzTest, StoredAndDeflatedArrays_AreReadByName) {
  for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    WriteZip({{"images.npy", Npy(kNpzDict, kElements), method}, {"notes.txt", "no array"}, {"y.npy", "", method}});
    EXPECT_THAT(NpzFile::Open(At("f"))->names(), ElementsAre("images", "y"));
    const auto array = Read("images");
    ASSERT_TRUE(array.ok()) << array.status();
    EXPECT_THAT(array->shape, ElementsAre(4, 3));
    EXPECT_EQ(std::string(array->bytes.begin(), array->bytes.end()), kElements);
    EXPECT_THAT(Read("images", 2)->bytes, ElementsAre('a', 'b', 'c', 'd', 'e', 'f'));
  }
}

TEST_F(NpzTest, MissingArray_IsNamedWithThoseThatAreThere) {
  WriteZip({{"x_train.npy", Npy(kNpzDict, kElements)}, {"y_train.npy", Npy(kNpzDict, kElements)}});
  EXPECT_EQ(ErrorOf("images"), "f: it has no array \"images\"; it has x_train, y_train");
}

TEST_F(NpzTest, ArchiveWithoutArrays_IsRefused) {
  WriteZip({{"notes.txt", "no array"}});
  EXPECT_EQ(ErrorOf("images"), "f: the archive has no array, no entry that ends in .npy");
  Write("f", "PK\x03\x04");
  EXPECT_THAT(ErrorOf("images"), HasSubstr("f: not a sound ZIP archive"));
}

TEST_F(NpzTest, ArrayThatIsNotWhatItsHeaderSays_IsNamedWithItsArchive) {
  WriteZip(
      {{"a.npy", Npy(kNpzDict, "abc")}, {"b.npy", Npy(kNpzDict, std::string(kElements) + "more")}, {"c.npy", "text"}});
  EXPECT_EQ(ErrorOf("a"), "f: array \"a\": the file ends after 3 of 12 bytes of samples");
  EXPECT_EQ(ErrorOf("b"), "f: array \"b\": bytes follow the last sample");
  EXPECT_EQ(ErrorOf("c"), "f: array \"c\": the file ends inside its header");
}

TEST_F(NpzTest, OtherMethodsAndEncryption_AreRefused) {
  WriteZip({{"a.npy", Npy(kNpzDict, kElements), ZIP_CM_BZIP2}});
  EXPECT_THAT(ErrorOf("a"), HasSubstr("encrypted, or compressed by another method than deflate"));
  WriteZip({{"a.npy", Npy(kNpzDict, kElements)}}, "secret");
  EXPECT_THAT(ErrorOf("a"), HasSubstr("encrypted, or compressed by another method than deflate"));
}

TEST_F(NpzTest, Bomb_IsUnpackedOnlyAsFarAsItsArrayGoes) {
  // The entry is about 64 KiB, and unpacks to 64 MiB of zeros. The array that it describes has only twelve elements.
  WriteZip({{"a.npy", Npy(kNpzDict, std::string(64 << 20, '\0'))}});
  EXPECT_LT(Content().size(), size_t{128} << 10);
  EXPECT_EQ(ErrorOf("a"), "f: array \"a\": bytes follow the last sample");
  WriteZip(
      {{"a.npy", Npy("{'descr': '|u1', 'fortran_order': False, 'shape': (4294967297,), }", std::string(64, '\0'))}});
  EXPECT_THAT(ErrorOf("a"), HasSubstr("are more than 4294967296 bytes"));
}

TEST_F(NpzTest, TooManyEntries_AreRefused) {
  std::vector<Entry> entries;
  for (int i = 0; i <= kMaxNpzEntries; ++i) {
    entries.push_back({absl::StrCat(i, ".npy"), ""});
  }
  WriteZip(entries);
  EXPECT_EQ(ErrorOf("0"), "f: 1001 entries in the archive; at most 1000");
}

TEST_F(NpzTest, NameThatIsNotUtf8_IsRefused) {
  WriteZip({{"a.npy", Npy(kNpzDict, kElements)}});
  std::string content = Content();
  for (size_t at = content.find("a.npy"); at != std::string::npos; at = content.find("a.npy")) {
    content[at] = '\xff';
  }
  Write("f", content);
  EXPECT_EQ(ErrorOf("a"), "f: the name of an entry is not UTF-8: \\377.npy");
}

TEST_F(NpzTest, TwoArraysOfOneName_AreRefused) {
  WriteZip({{"a.npy", Npy(kNpzDict, kElements)}, {"b.npy", Npy(kNpzDict, kElements)}});
  std::string content = Content();
  for (size_t at = content.find("b.npy"); at != std::string::npos; at = content.find("b.npy")) {
    content[at] = 'a';
  }
  Write("f", content);
  EXPECT_THAT(ErrorOf("a"), HasSubstr("f: not a sound ZIP archive"));
}

TEST_F(NpzTest, EveryTruncation_IsADataError) {
  WriteZip({{"a.npy", Npy(kNpzDict, kElements)}});
  const std::string whole = Content();
  for (size_t size = 0; size < whole.size(); ++size) {
    Write("f", whole.substr(0, size));
    EXPECT_THAT(ErrorOf("a"), HasSubstr("f: ")) << size;
  }
}

TEST_F(NpzTest, DamageInAnyByte_IsADataErrorOrChangesNothing) {
  for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
    WriteZip({{"a.npy", Npy(kNpzDict, kElements), method}});
    const std::string whole = Content();
    const size_t content_begin = whole.find("a.npy") + 5;
    const size_t content_end = whole.find("PK\x01\x02");
    size_t num_refused_in_content = 0;
    for (size_t i = 0; i < whole.size(); ++i) {
      std::string damaged = whole;
      damaged[i] = static_cast<char>(damaged[i] ^ (1 << (i % 8)));
      Write("f", damaged);
      const auto array = Read("a");
      if (array.ok()) {
        EXPECT_EQ(std::string(array->bytes.begin(), array->bytes.end()), kElements) << "byte " << i;
      } else {
        EXPECT_EQ(ReasonOf(array.status()), "DATA_ERROR") << "byte " << i;
        num_refused_in_content += i >= content_begin && i < content_end ? 1 : 0;
      }
    }
    // Every flipped bit of the content is detected. The only exception is one byte of a deflated stream: the padding
    // bits at its end.
    EXPECT_GE(num_refused_in_content, content_end - content_begin - (method == ZIP_CM_STORE ? 0 : 1));
  }
}

// For the array "x", NumPy would read the entry "x" and not the entry "x.npy".
TEST_F(NpzTest, ANameThatTwoEntriesHave_IsRefused) {
  WriteZip({{"x", Npy(kNpzDict, kElements)}, {"x.npy", Npy(kNpzDict, kElements)}});
  EXPECT_EQ(ErrorOf("x"), "f: the archive has entries \"x\" and \"x.npy\": the name of an array twice");
}

// A ZIP program that appends an entry again leaves two entries of the same name in the archive.
TEST_F(NpzTest, AnEntryThatIsThereTwice_IsRefused) {
  WriteZip({{"xx.npy", Npy(kNpzDict, kElements)}, {"xy.npy", Npy(kNpzDict, "lkjihgfedcba")}});
  std::string content = Content();
  for (size_t at = content.find("xy.npy"); at != std::string::npos; at = content.find("xy.npy", at)) {
    content.replace(at, 2, "xx");
  }
  Write("f", content);
  EXPECT_THAT(ErrorOf("xx"), HasSubstr("not a sound ZIP archive"));
}

}  // namespace
}  // namespace ampd::data
