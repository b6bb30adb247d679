#include <fcntl.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <zip.h>

#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/formats/zip_archive.h"
#include "graph/exported/exported_program.h"
#include "tests/base/failing_reads.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::graph {
namespace {

using testing::AllOf;
using testing::HasSubstr;
using testing::Not;

// An archive that torch.export wrote. Its entries together are larger than the bytes that libzip reads ahead.
const std::filesystem::path kSound =
    std::filesystem::path(AMPD_SOURCE_DIR) / "tests/fuzz/corpus/exported/sound_stored.pt2";

absl::StatusOr<ZipArchive> OpenSound() {
  return ZipArchive::Open(UniqueFd(open(kSound.c_str(), O_RDONLY | O_CLOEXEC)), 100);
}

TEST(ReadExportedModel, OfAFileThatTheHostCantReadIsUnavailable) {
  const auto archive = OpenSound();
  ASSERT_TRUE(archive.ok()) << archive.status();
  EXPECT_TRUE(ReadExportedModel(*archive).ok());
  ASSERT_EQ(BreakReads(kSound), 1);
  EXPECT_EQ(ReadExportedModel(*archive).status(), absl::UnavailableError("Input/output error"));
}

TEST(ReadExportedModel, OfMoreJsonThanTheReaderTakes_SaysSoAndBlamesNoFile) {
  const auto archive = OpenSound();
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto num_bytes = [&archive](const char* name) {
    return static_cast<int64_t>(archive->ReadEntry(archive->Find(name).value(), kMaxExportedJsonBytes)->size());
  };
  int64_t all = 0;
  for (const std::string& name : archive->names()) {
    all += absl::EndsWith(name, ".json") ? num_bytes(name.c_str()) : 0;
  }
  EXPECT_TRUE(ReadExportedModel(*archive, all).ok());
  for (const int64_t less : {all - 1, all / 2, int64_t{1}}) {
    EXPECT_TRUE(absl::IsResourceExhausted(ReadExportedModel(*archive, less).status())) << less;
  }
}

TEST(ReadStored, OfAFileThatTheHostCantReadIsUnavailable) {
  const auto archive = OpenSound();
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto model = ReadExportedModel(*archive);
  ASSERT_TRUE(model.ok()) << model.status();
  ASSERT_EQ(BreakReads(kSound), 1);
  for (const auto& [name, tensor] : model->state) {
    EXPECT_EQ(ReadStored(*archive, tensor).status(), absl::UnavailableError("Input/output error")) << name;
  }
}

// The tensor needs only the first bytes of its entry, so only these are read, even if the entry unpacks to a thousand
// times as much.
TEST(ReadStored, TakesAsMuchOfAnEntryAsTheTensorReaches) {
  const auto archive = OpenSound();
  ASSERT_TRUE(archive.ok()) << archive.status();
  const auto model = ReadExportedModel(*archive);
  ASSERT_TRUE(model.ok()) << model.status();
  for (const auto& [name, tensor] : model->state) {
    StoredTensor first = tensor;
    first.sizes = {1};
    first.strides = {1};
    first.offset = 0;
    const auto content = ReadStored(*archive, first);
    ASSERT_TRUE(content.ok()) << content.status();
    EXPECT_EQ(static_cast<int64_t>(content->size()), ItemSizeBytes(tensor.dtype)) << name;
    EXPECT_EQ(ReadStored(*archive, tensor)->substr(0, content->size()), *content) << name;
  }
}

// If such archives were accepted, a file of a few kilobytes could take gigabytes of a worker's memory.
TEST(ReadExportedModel, OfTensorsThatUnpackToFarMoreThanTheArchiveIsRefused) {
  const std::string path = testing::TempDir() + "/packed.pt2";
  const auto read = [&path](int64_t rows, int64_t row_stride) {
    json model = Net();
    AddParameter(model, "p_big", "big", {rows, 4});
    model["weights"]["config"]["big"]["tensor_meta"]["strides"][0] = {{"as_int", row_stride}};
    WriteArchive(path, model);
    const auto archive = ZipArchive::Open(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)), 100);
    return std::string(ReadExportedModel(archive.value()).status().message());
  };
  EXPECT_EQ(read(1000, 4), "");
  EXPECT_THAT(read(1 << 24, 4), HasSubstr("its tensors unpack to more than 268435456 bytes, the archive has "));
  EXPECT_THAT(read(2, 1 << 27), HasSubstr("unpack to more than")) << "what is between its two rows is read too";
}

// Writes an archive of `model`, which WithInlineConstants made, and reads it. The texts are the contents of the model's
// three constants.
absl::StatusOr<ExportedModel> ReadWithConstants(const json& model, const std::string& zero, const std::string& one,
                                                const std::string& of_evaluation) {
  const std::string path = testing::TempDir() + "/constants.pt2";
  WriteArchive(path, model, {{"tensor_0", zero}, {"tensor_1", one}, {"tensor_2", of_evaluation}});
  const auto archive = ZipArchive::Open(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)), 100);
  std::filesystem::remove(path);
  return archive.ok() ? ReadExportedModel(*archive) : archive.status();
}

std::string EvalEntry(const ExportedModel& model) { return model.state.at(model.eval->inputs.back().name).entry; }

TEST(ReadExportedModel, EvaluationHasTheConstantsOfItsOwnTable) {
  const auto model = ReadWithConstants(WithInlineConstants(), "1.1f", "4.0f", "4.0f");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(model->eval->inputs.back().name, "lifted_tensor_0@eval");
  EXPECT_EQ(EvalEntry(*model), "data/constants/tensor_2");
  EXPECT_EQ(model->state.at("lifted_tensor_0").entry, "data/constants/tensor_0");
  const auto again = ParseExportedModel(model->json);
  ASSERT_TRUE(again.ok()) << "what a checkpoint keeps: " << again.status();
  EXPECT_EQ(again->state, model->state);
  EXPECT_EQ(EvalEntry(*again), "data/constants/tensor_2");
}

TEST(ReadExportedModel, AConstantThatIsTheSameInBothProgramsIsThereOnce) {
  const auto model = ReadWithConstants(WithInlineConstants(), "4.0f", "1.1f", "4.0f");
  ASSERT_TRUE(model.ok()) << model.status();
  EXPECT_EQ(EvalEntry(*model), "data/constants/tensor_0");
  EXPECT_FALSE(model->state.contains("lifted_tensor_0@eval"));
  EXPECT_THAT(model->json, Not(HasSubstr("eval_constants")));
}

TEST(ReadExportedModel, AConstantThatTrainingHasNot_OrInAnotherLayout_IsEvaluationsOwn) {
  json model = WithInlineConstants();
  model["constants"]["config"].erase("lifted_tensor_1");
  model["programs"]["train"] = Net()["programs"]["train"];
  for (const json& config : {json::object(), json{{"lifted_tensor_0", Stored("tensor_0", {1})}}}) {
    model["constants"]["config"] = config;
    const auto read = ReadWithConstants(model, "4.0f", "", "4.0f");
    ASSERT_TRUE(read.ok()) << read.status();
    EXPECT_EQ(EvalEntry(*read), "data/constants/tensor_2");
  }
}

TEST(ReadExportedModel, ConstantsThatAreTooLargeToCompareAreNotRead) {
  const std::vector<json> sizes = {(int64_t{64} << 20) / 4 + 1};
  json model = WithInlineConstants();
  model["constants"]["config"]["lifted_tensor_0"] = Stored("tensor_0", sizes);
  model["eval_constants"]["config"]["lifted_tensor_0"] = Stored("tensor_2", sizes);
  for (const char* program : {"train", "eval"}) {
    GraphOf(model, program)["tensor_values"]["c_lifted_tensor_0"] = Tensor(sizes);
  }
  const auto read = ReadWithConstants(model, "", "", "");
  ASSERT_TRUE(read.ok()) << read.status();
  EXPECT_EQ(EvalEntry(*read), "data/constants/tensor_2");
}

TEST(ReadExportedModel, AConstantWithoutItsContentIsNamed) {
  EXPECT_EQ(ReadWithConstants(WithInlineConstants(), "4.0f", "", "4").status().message(),
            "data/constants/tensor_2 has 1 bytes; its tensor reaches to 4");
  json model = WithInlineConstants();
  model["eval_constants"]["config"]["lifted_tensor_0"]["use_pickle"] = true;
  EXPECT_THAT(std::string(ReadWithConstants(model, "", "", "").status().message()),
              HasSubstr("eval_constants.config.lifted_tensor_0: is pickled"));
}

// Opens the archive kSound with other content for one entry, or without that entry if there is no content.
absl::StatusOr<ZipArchive> OpenWith(const std::string& entry, const std::optional<std::string>& content,
                                    int method = ZIP_CM_STORE) {
  const std::string path = testing::TempDir() + "/changed.pt2";
  std::filesystem::copy_file(kSound, path, std::filesystem::copy_options::overwrite_existing);
  zip_t* const archive = zip_open(path.c_str(), 0, nullptr);
  const int64_t index = zip_name_locate(archive, entry.c_str(), 0);
  EXPECT_GE(index, 0) << entry;
  if (content.has_value()) {
    zip_source_t* const source = zip_source_buffer(archive, content->data(), content->size(), 0);
    EXPECT_EQ(zip_file_replace(archive, index, source, 0), 0);
    EXPECT_EQ(zip_set_file_compression(archive, index, method, 0), 0);
  } else {
    EXPECT_EQ(zip_delete(archive, index), 0);
  }
  EXPECT_EQ(zip_close(archive), 0);
  return ZipArchive::Open(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)), 100);
}

// Returns the archive entry of each weight in kSound, by the weight's name.
std::map<std::string, std::string> WeightsOfSound() {
  std::map<std::string, std::string> weights;
  const auto archive = OpenSound();
  const auto model = ReadExportedModel(archive.value());
  for (const auto& [name, tensor] : model.value().state) {
    for (const std::string& entry : archive->names()) {
      if (absl::EndsWith(entry, tensor.entry)) {
        weights[name] = entry;
      }
    }
  }
  return weights;
}

TEST(ReadExportedModel, ATensorWithoutItsContentIsNamed) {
  const std::map<std::string, std::string> weights = WeightsOfSound();
  ASSERT_FALSE(weights.empty());
  for (const auto& [name, entry] : weights) {
    const auto archive = OpenWith(entry, std::nullopt);
    const std::string message(ReadExportedModel(archive.value()).status().message());
    EXPECT_THAT(message, AllOf(HasSubstr("the archive has no data/"), HasSubstr(", the content of " + name))) << entry;
  }
}

TEST(ReadExportedModel, ATensorWithTooLittleContentIsNamed) {
  for (const auto& [name, entry] : WeightsOfSound()) {
    const std::string whole = *OpenSound()->ReadEntry(*OpenSound()->Find(entry), 1 << 20);
    for (const int method : {ZIP_CM_STORE, ZIP_CM_DEFLATE}) {
      for (const size_t size : {size_t{0}, whole.size() - 1}) {
        const auto archive = OpenWith(entry, whole.substr(0, size), method);
        const std::string message(ReadExportedModel(archive.value()).status().message());
        EXPECT_THAT(message, AllOf(HasSubstr(absl::StrCat(" has ", size, " bytes; ", name)), HasSubstr("reaches to ")));
      }
      EXPECT_TRUE(ReadExportedModel(OpenWith(entry, whole, method).value()).ok()) << entry;
    }
  }
}

TEST(VerifyContent, ContentThatIsNotWhatItsChecksumSaysIsFound) {
  const std::string path = testing::TempDir() + "/flipped.pt2";
  for (const auto& [name, entry] : WeightsOfSound()) {
    const std::string whole = *OpenSound()->ReadEntry(*OpenSound()->Find(entry), 1 << 20);
    std::ifstream file(kSound, std::ios::binary);
    std::string bytes{std::istreambuf_iterator<char>(file), {}};
    const size_t at = bytes.find(whole);
    ASSERT_NE(at, std::string::npos) << entry;
    bytes[at] = static_cast<char>(bytes[at] ^ 1);
    std::ofstream(path, std::ios::binary) << bytes;
    const auto archive = ZipArchive::Open(UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC)), 100);
    const auto model = ReadExportedModel(archive.value());
    ASSERT_TRUE(model.ok()) << model.status();
    EXPECT_THAT(std::string(VerifyContent(*archive, *model).message()), HasSubstr("CRC error")) << name;
    EXPECT_TRUE(VerifyContent(OpenSound().value(), *model).ok());
  }
}

TEST(SavedNames, TiedParametersHaveAllTheirNamesAndConstantsNone) {
  const StoredTensor table = {.entry = "data/weights/weight_0", .sizes = {4, 2}, .strides = {2, 1}};
  const StoredTensor norm = {.entry = "data/weights/weight_1", .sizes = {2}, .strides = {1}};
  const StoredTensor mask = {.entry = "data/constants/tensor_0", .sizes = {2}, .strides = {1}};
  const SavedNames names =
      SavedNamesOf({{"head", table}, {"mask", mask}, {"norm", norm}, {"table", table}, {"unread", norm}},
                   {"head", "mask", "counter"});
  EXPECT_EQ(names.left_out, std::set<std::string>({"mask"}));
  EXPECT_EQ(names.tied, (std::map<std::string, std::string>{{"table", "head"}}));
}

}  // namespace
}  // namespace ampd::graph
