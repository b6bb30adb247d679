// Gives files of every format to the readers of all formats. Jobs and `ampctl data inspect` must agree on each file: a
// reader must accept a file exactly if inspection calls it a valid file of the reader's format. In the same way,
// `ampctl model inspect` and the trainer must agree on models.
#include <gmock/gmock.h>
#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <variant>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/inspect/model_file.h"
#include "data/cifar.h"
#include "data/file_report.h"
#include "data/idx.h"
#include "data/jsonl.h"
#include "data/npy.h"
#include "data/npz.h"
#include "data/tensor_arrays.h"
#include "data/tokens.h"
#include "precision/example_device.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"
#include "worker/train/plan/imported_model.h"

namespace ampd::data {
namespace {

using Format = v1::DatasetFile::Format;

template <typename Number>
std::string BytesOf(const std::vector<Number>& numbers) {
  return {reinterpret_cast<const char*>(numbers.data()), numbers.size() * sizeof(Number)};
}

// Returns tokens below 50,257 in no particular order.
template <typename Number>
std::string TokenBytes(int64_t count) {
  std::vector<Number> tokens;
  for (int64_t i = 0; i < count; ++i) {
    tokens.push_back(static_cast<Number>(i * 7919 % 50'257));
  }
  return BytesOf(tokens);
}

std::string LlmC(int32_t magic, int32_t version, int32_t count, const std::string& tokens) {
  std::vector<int32_t> words(256);
  words[0] = magic;
  words[1] = version;
  words[2] = count;
  return BytesOf(words) + tokens;
}

std::string Safetensors(std::string header, const std::string& tensors) {
  header.resize((header.size() + 7) / 8 * 8, ' ');
  std::string length(8, '\0');
  length[0] = static_cast<char>(header.size());
  return length + header + tensors;
}

std::string CifarRecords(const std::string& labels, int count, char pixel) {
  std::string records;
  for (int i = 0; i < count; ++i) {
    records += labels + std::string(kCifarPixelBytes, pixel);
  }
  return records;
}

std::string BigEndian(uint32_t number) {
  return {static_cast<char>(number >> 24), static_cast<char>(number >> 16), static_cast<char>(number >> 8),
          static_cast<char>(number)};
}

std::string Utf16(const std::string& text) {
  std::string wide = "\xff\xfe";
  for (const char c : text) {
    wide += {c, '\0'};
  }
  return wide;
}

std::string NpyOf(const char* descr, const char* order, const char* shape, const std::string& elements) {
  return Npy(absl::StrCat("{'descr': ", descr, ", 'fortran_order': ", order, ", 'shape': ", shape, ", }"), elements);
}

class AgreementTest : public DataFolderTest {
 protected:
  std::string Zip(const std::map<std::string, std::string>& entries) {
    const std::string path = root_ / "zip";
    zip_t* const archive = zip_open(path.c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    for (const auto& [name, content] : entries) {
      EXPECT_GE(zip_file_add(archive, name.c_str(), zip_source_buffer(archive, content.data(), content.size(), 0), 0),
                0);
    }
    EXPECT_EQ(zip_close(archive), 0);
    std::ifstream file(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(file), {}};
  }

  // Reads the first array of an NpzFile or of TensorArrays.
  template <typename Archive>
  static absl::StatusOr<Array> ReadFirst(const absl::StatusOr<Archive>& archive) {
    return archive.ok() ? archive->Read(archive->names().at(0), 0) : absl::StatusOr<Array>(archive.status());
  }

  // Returns the formats whose reader accepts the file when a job names it as a source of that format. "TOKENS" means a
  // source of tokens with the format AUTO.
  std::set<std::string> TakenBy() {
    const DataFile file = At("f");
    std::set<std::string> taken;
    const auto note = [&taken](const char* format, const auto& read) {
      EXPECT_TRUE(read.ok() || ReasonOf(read.status()) == "DATA_ERROR") << read.status();
      if (read.ok()) {
        taken.insert(format);
      }
    };
    note("IDX", ReadIdxImages(file, 0));
    note("IDX", ReadIdxLabels(file, 0, 256));
    note("CIFAR10", ReadCifar({file}, CifarLabels::kTen, 0, 10));
    note("CIFAR100", ReadCifar({file}, CifarLabels::kHundredFine, 0, 100));
    note("NPY", ReadNpy(file, 0));
    note("JSONL", ReadJsonl(file, {}));
    note("TOKENS", ReadTokens(file, TokenFormat::kAuto, 0, std::nullopt));
    note("NPZ", ReadFirst(NpzFile::Open(file)));
    note("SAFETENSORS", ReadFirst(TensorArrays::Open(file)));
    return taken;
  }

  // Returns the format that inspection finds, or nothing if the file is not valid.
  std::set<std::string> InspectedAs() {
    const auto report = InspectFile(At("f"));
    if (!report.ok() || !report->problems().empty()) {
      return {};
    }
    const std::string name = v1::DatasetFile::Format_Name(report->format());
    return {absl::StrContains(name, "TOKENS") ? "TOKENS" : name};
  }

  // Returns {description: (content of a file, formats in which the file is valid)}.
  std::map<std::string, std::pair<std::string, std::set<std::string>>> Table() {
    const std::string tokens16 = TokenBytes<uint16_t>(3000);
    const std::string tokens32 = TokenBytes<uint32_t>(3000);
    const std::string array = NpyOf("'<i2'", "False", "(3000,)", tokens16);
    const std::string texts = "{\"input_ids\": [5, 7], \"label\": 1}\r\n{\"label\": 0, \"input_ids\": [6]}\n";
    const std::string words = "Some words, of which there are enough to be text; \xc3\xa9\n";
    std::string book;
    for (int i = 0; i < 20; ++i) {
      book += words;
    }
    const std::string tensors = Safetensors(R"({"x":{"dtype":"U8","shape":[2],"data_offsets":[0,2]}})", "ab");
    return {
        {"IDX images",
         {std::string("\0\0\x08\x03", 4) + BigEndian(2) + BigEndian(2) + BigEndian(2) + "abcdefgh", {"IDX"}}},
        {"IDX labels", {std::string("\0\0\x08\x01", 4) + BigEndian(3) + "\1\2\3", {"IDX"}}},
        {"IDX labels of CIFAR's size",
         {std::string("\0\0\x08\x01", 4) + BigEndian(3065) + std::string(3065, '\1'), {"IDX"}}},
        {"IDX, packed", {Gzip(std::string("\0\0\x08\x01", 4) + BigEndian(3) + "\1\2\3"), {"IDX"}}},
        {"IDX, cut", {std::string("\0\0\x08\x01", 4) + BigEndian(30) + "\1\2\3", {}}},
        {"CIFAR-10", {CifarRecords("\3", 4, '\x11'), {"CIFAR10"}}},
        {"CIFAR-10, dark", {CifarRecords(std::string(1, '\0'), 4, '\0'), {"CIFAR10"}}},
        {"CIFAR-10, packed", {Gzip(CifarRecords("\3", 4, '\x11')), {"CIFAR10"}}},
        {"CIFAR-100", {CifarRecords("\3\x20", 4, '\x11'), {"CIFAR100"}}},
        {"CIFAR-10 of a tab and a brace", {"\t{" + std::string(3071, '\x80'), {"CIFAR10"}}},
        {"NumPy's tokens", {array, {"NPY"}}},
        {"NumPy's unsigned tokens", {NpyOf("'<u2'", "False", "(3000,)", tokens16), {}}},
        {"NumPy's array, packed", {Gzip(array), {"NPY"}}},
        {"NumPy's big-endian array", {NpyOf("'>u2'", "False", "(3000,)", tokens16), {}}},
        {"NumPy's array in Fortran order", {NpyOf("'<i2'", "True", "(30, 100)", tokens16), {}}},
        {"NumPy's array of half numbers", {NpyOf("'<f2'", "False", "(4,)", std::string(8, '\0')), {"NPY"}}},
        {"NumPy's array of truths", {NpyOf("'|b1'", "False", "(4,)", std::string(4, '\1')), {"NPY"}}},
        {"NumPy's objects", {NpyOf("'|O'", "False", "(4,)", "\x80\4]."), {}}},
        {"NumPy's record", {NpyOf("[('a', '<i2')]", "False", "(3000,)", tokens16), {}}},
        {"NPZ", {Zip({{"x.npy", NpyOf("'|u1'", "False", "(2,)", "ab")}}), {"NPZ"}}},
        {"ZIP without arrays", {Zip({{"x.txt", "ab"}}), {}}},
        {"NPZ with a name twice", {Zip({{"x", "ab"}, {"x.npy", NpyOf("'|u1'", "False", "(2,)", "ab")}}), {}}},
        {"NPZ, packed", {Gzip(Zip({{"x.npy", NpyOf("'|u1'", "False", "(2,)", "ab")}})), {}}},
        {"safetensors", {tensors, {"SAFETENSORS"}}},
        {"safetensors, packed", {Gzip(tensors), {}}},
        {"safetensors with a name twice",
         {Safetensors(
              R"({"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]},"x":{"dtype":"U8","shape":[1],"data_offsets":[1,2]}})",
              "ab"),
          {}}},
        {"llm.c, 16 bits", {LlmC(20240520, 1, 3000, tokens16), {"TOKENS"}}},
        {"llm.c, 32 bits", {LlmC(20240801, 7, 3000, tokens32), {"TOKENS"}}},
        {"llm.c, packed", {Gzip(LlmC(20240520, 1, 3000, tokens16)), {}}},
        {"llm.c, cut", {LlmC(20240520, 1, 3001, tokens16), {}}},
        {"tokens of 16 bits", {tokens16, {"TOKENS"}}},
        {"tokens of 32 bits", {tokens32, {"TOKENS"}}},
        {"tokens of 64 bits", {TokenBytes<uint64_t>(3000), {}}},
        {"tokens, packed", {Gzip(tokens16), {}}},
        {"tokens and a byte", {tokens16 + "\1", {}}},
        {"tokens of CIFAR's size", {TokenBytes<uint16_t>(10 * 3073), {"TOKENS"}}},
        {"a few tokens", {BytesOf<uint16_t>({1, 2, 3, 4}), {}}},
        {"zeros", {std::string(4096, '\0'), {}}},
        {"JSON lines", {texts, {"JSONL"}}},
        {"JSON lines, packed", {Gzip(texts), {"JSONL"}}},
        {"JSON lines with a mark", {"\xef\xbb\xbf" + texts, {"JSONL"}}},
        {"JSON lines with a key twice", {"{\"input_ids\": [5], \"label\": 1, \"label\": 0}\n", {}}},
        {"JSON lines of CIFAR's size",
         {"{\"input_ids\": [5]," + std::string(3073 - 31, ' ') + "\"label\": 1}\n\n", {}}},
        {"JSON lines of CIFAR's size, sound",
         {"\t{\"input_ids\": [5]," + std::string(3073 - 31, ' ') + "\"label\": 1}\n", {"JSONL"}}},
        {"JSON list", {"[" + texts.substr(0, texts.size() - 1) + "]", {}}},
        {"JSON", {"{\n  \"input_ids\": [5],\n  \"label\": 1\n}\n", {}}},
        {"CSV", {"text,label\n" + book, {}}},
        {"text", {book, {}}},
        {"text of CIFAR's size", {(book + book + book + book).substr(0, 3073), {}}},
        {"text, packed", {Gzip(book), {}}},
        {"text with a mark", {"\xef\xbb\xbf" + book, {}}},
        {"text in UTF-16", {Utf16(book), {}}},
        {"PNG", {"\x89PNG\r\n\x1a\n" + tokens16, {}}},
        {"JPEG", {"\xff\xd8\xff" + tokens16, {}}},
        {"Parquet", {"PAR1" + tokens16 + "PAR1", {}}},
        {"pickle", {"\x80\4\x95" + tokens16, {}}},
        {"nothing", {"", {}}},
    };
  }
};

TEST_F(AgreementTest, EveryReader_TakesWhatInspectionCallsItsFormatAndNothingElse) {
  for (const auto& [what, row] : Table()) {
    const auto& [content, expected] = row;
    Write("f", content);
    EXPECT_EQ(InspectedAs(), expected) << what;
    EXPECT_EQ(TakenBy(), expected) << what;
  }
}

TEST_F(AgreementTest, TokensWhoseFormatIsSaid_AreWhatInspectionOfThatFormatTells) {
  const std::pair<TokenFormat, Format> formats[] = {{TokenFormat::kLlmC, v1::DatasetFile::LLM_C_TOKENS},
                                                    {TokenFormat::kUint16, v1::DatasetFile::UINT16_TOKENS},
                                                    {TokenFormat::kUint32, v1::DatasetFile::UINT32_TOKENS}};
  for (const auto& [what, row] : Table()) {
    Write("f", row.first);
    for (const auto& [format, name] : formats) {
      const auto read = ReadTokens(At("f"), format, 0, std::nullopt);
      const auto report = InspectTokens(At("f"), format);
      ASSERT_TRUE(report.ok()) << what;
      EXPECT_EQ(report->format(), name);
      ASSERT_EQ(read.ok(), report->problems().empty()) << what << ": " << read.status();
      if (read.ok()) {
        const auto size = std::visit([](const auto& all) { return static_cast<int64_t>(all.size()); }, read->tokens);
        EXPECT_EQ(report->arrays(0).shape(0), size) << what;
        EXPECT_EQ(read->note.empty(), report->notes().empty()) << what;
      } else {
        EXPECT_EQ(report->problems(0), std::string(read.status().message())) << what;
      }
    }
  }
}

// The test uses the files of Table(), of which none is a model, and the files of the fuzz targets, of which some are
// models.
TEST_F(AgreementTest, Models_AreRefusedByTheTrainerWhereInspectionRefusesThem) {
  std::map<std::string, std::string> files;
  for (const auto& [what, row] : Table()) {
    files[what] = row.first;
  }
  int num_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(AMPD_EXPORTED_CORPUS)) {
    if (entry.path().extension() == ".pt2") {
      std::ifstream file(entry.path(), std::ios::binary);
      files[entry.path().filename()] = {std::istreambuf_iterator<char>(file), {}};
    }
  }
  for (const auto& [what, content] : files) {
    Write("f", content);
    const auto told = client::InspectModelFile(root_ / "f", {.presets = {}, .device = precision::ExampleCpu()});
    const auto read = train::OpenImportedModel({}, At("f"));
    EXPECT_EQ(told.ok() && told->problems().empty(), read.ok()) << what << ": " << told.status() << read.status();
    num_models += read.ok() ? 1 : 0;
  }
  EXPECT_GT(num_models, 0);
}

}  // namespace
}  // namespace ampd::data
