#include "worker/train/predict/prediction_files.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "ATen/ops/arange.h"
#include "ATen/ops/cat.h"
#include "ATen/ops/full.h"
#include "ATen/ops/ones.h"
#include "ATen/ops/tensor.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "base/error.h"
#include "data/npz.h"
#include "tests/data/data_folder.h"

namespace ampd::train {
namespace {

using ::testing::ElementsAre;

// Predictions of `count` samples, whose indices start at `first`. Sample i has the class i % 3 and the logits i and i +
// 0.5.
std::vector<amp::Prediction> BatchFrom(int64_t first, int64_t count) {
  const at::Tensor index = at::arange(first, first + count, at::kLong);
  const at::Tensor column = index.to(at::kFloat).unsqueeze(1);
  return {{"class", index.remainder(3)},
          {"logits", at::cat(std::vector<at::Tensor>{column, column.add(0.5)}, 1).contiguous()}};
}

class PredictionFilesTest : public data::DataFolderTest {
 protected:
  // Returns the files for `num_samples` samples that are added in batches of `batch_size`.
  static std::vector<v1::Sample> FilesOf(v1::PredictSpec::Format format, int64_t num_samples, int64_t batch_size) {
    std::vector<v1::Sample> files;
    PredictionFiles out(format, [&files](v1::Sample file) {
      files.push_back(std::move(file));
      return absl::OkStatus();
    });
    for (int64_t first = 0; first < num_samples; first += batch_size) {
      EXPECT_TRUE(out.Add(first / batch_size + 1, BatchFrom(first, std::min(batch_size, num_samples - first))).ok());
    }
    EXPECT_TRUE(out.Finish().ok());
    EXPECT_EQ(out.num_samples(), num_samples);
    EXPECT_EQ(out.num_files(), static_cast<int>(files.size()));
    return files;
  }
};

TEST_F(PredictionFilesTest, JsonLines_HaveOneObjectASample) {
  const std::vector<v1::Sample> files = FilesOf(v1::PredictSpec::JSON_LINES, 3, 2);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].file_name(), "predictions-0000000000.jsonl");
  EXPECT_EQ(files[0].step(), 2);
  EXPECT_EQ(files[0].content(),
            "{\"index\": 0, \"class\": 0, \"logits\": [0, 0.5]}\n"
            "{\"index\": 1, \"class\": 1, \"logits\": [1, 1.5]}\n"
            "{\"index\": 2, \"class\": 2, \"logits\": [2, 2.5]}\n");
}

TEST_F(PredictionFilesTest, JsonLines_HoldNumbersThatReadBackExactlyAndNullForOthers) {
  const float third = 1.0F / 3;
  std::string line;
  PredictionFiles out(v1::PredictSpec::JSON_LINES, [&line](const v1::Sample& file) {
    line = file.content();
    return absl::OkStatus();
  });
  const float infinity = std::numeric_limits<float>::infinity();
  ASSERT_TRUE(out.Add(1, {{"predictions", at::tensor({third, -infinity, infinity - infinity, 1e-30F}).view({1, 2, 2})},
                          {"labels", at::ones({1, 2}, at::kBool)},
                          {"one", at::full({1}, 7.25, at::kFloat)}})
                  .ok());
  ASSERT_TRUE(out.Finish().ok());
  const nlohmann::json parsed = nlohmann::json::parse(line);
  EXPECT_EQ(parsed["predictions"][0][0].get<float>(), third);
  EXPECT_TRUE(parsed["predictions"][0][1].is_null());
  EXPECT_TRUE(parsed["predictions"][1][0].is_null());
  EXPECT_EQ(parsed["predictions"][1][1].get<float>(), 1e-30F);
  EXPECT_EQ(parsed["labels"], nlohmann::json::parse("[1, 1]"));
  EXPECT_EQ(parsed["one"], 7.25);
}

TEST_F(PredictionFilesTest, Files_AreFullAndDoNotDependOnTheBatches) {
  constexpr int64_t kSamples = 60'000;
  for (const auto format : {v1::PredictSpec::JSON_LINES, v1::PredictSpec::NPZ}) {
    const std::vector<v1::Sample> files = FilesOf(format, kSamples, 64);
    const std::vector<v1::Sample> others = FilesOf(format, kSamples, 1000);
    ASSERT_GT(files.size(), 1u);
    ASSERT_EQ(files.size(), others.size());
    for (size_t i = 0; i < files.size(); ++i) {
      EXPECT_LE(static_cast<int64_t>(files[i].content().size()), kMaxPredictionFileBytes);
      EXPECT_EQ(files[i].file_name(), others[i].file_name());
      EXPECT_EQ(files[i].content(), others[i].content()) << files[i].file_name();
    }
    const int64_t least = format == v1::PredictSpec::NPZ ? kMaxPredictionFileBytes - 5000 : kMaxPredictionFileBytes / 4;
    EXPECT_GT(static_cast<int64_t>(files[0].content().size()), least);
  }
}

TEST_F(PredictionFilesTest, JsonLines_OfSeveralFilesAreEverySampleOnceAndInOrder) {
  int64_t next = 0;
  for (const v1::Sample& file : FilesOf(v1::PredictSpec::JSON_LINES, 60'000, 512)) {
    EXPECT_EQ(file.file_name(), absl::StrFormat("predictions-%010d.jsonl", next));
    for (const auto line : absl::StrSplit(file.content(), '\n', absl::SkipEmpty())) {
      const nlohmann::json parsed = nlohmann::json::parse(line);
      ASSERT_EQ(parsed["index"], next);
      ASSERT_EQ(parsed["logits"][1], static_cast<double>(next) + 0.5);
      ++next;
    }
  }
  EXPECT_EQ(next, 60'000);
}

TEST_F(PredictionFilesTest, JsonLines_AreCutAtTheSameSamplesWhateverTheirDigits) {
  const auto names = [](double number) {
    std::vector<std::string> files;
    PredictionFiles out(v1::PredictSpec::JSON_LINES, [&files](const v1::Sample& file) {
      EXPECT_LE(static_cast<int64_t>(file.content().size()), kMaxPredictionFileBytes);
      files.push_back(file.file_name());
      return absl::OkStatus();
    });
    EXPECT_TRUE(out.Add(1, {{"logits", at::full({30'000, 10}, number, at::kFloat)}}).ok());
    EXPECT_TRUE(out.Finish().ok());
    return files;
  };
  EXPECT_GT(names(1).size(), 3u);
  EXPECT_EQ(names(1), names(-1.17549435e-38)) << "a short number and the longest";
}

TEST_F(PredictionFilesTest, Npz_HasArraysThatReadBack) {
  const std::vector<v1::Sample> files = FilesOf(v1::PredictSpec::NPZ, 5, 2);
  ASSERT_EQ(files.size(), 1u);
  EXPECT_EQ(files[0].file_name(), "predictions-0000000000.npz");
  Write("p.npz", files[0].content());
  const auto npz = data::NpzFile::Open(At("p.npz"));
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_THAT(npz->names(), ElementsAre("index", "class", "logits"));
  const auto logits = npz->Read("logits", 0);
  ASSERT_TRUE(logits.ok()) << logits.status();
  EXPECT_THAT(logits->shape, ElementsAre(5, 2));
  EXPECT_EQ(logits->type, data::ElementType::kFloat32);
  std::vector<double> numbers;
  data::ForEachElement(*logits, [&numbers](auto number) { numbers.push_back(static_cast<double>(number)); });
  EXPECT_THAT(numbers, ElementsAre(0, 0.5, 1, 1.5, 2, 2.5, 3, 3.5, 4, 4.5));
  EXPECT_THAT(npz->Read("index", 0)->shape, ElementsAre(5));
}

TEST_F(PredictionFilesTest, APredictionThatNoFileHolds_IsASpecError) {
  for (const auto format : {v1::PredictSpec::JSON_LINES, v1::PredictSpec::NPZ}) {
    PredictionFiles out(format, [](const v1::Sample& /*file*/) { return absl::OkStatus(); });
    const absl::Status status = out.Add(1, {{"predictions", at::ones({1, 600'000}, at::kFloat)}});
    EXPECT_EQ(ReasonOf(status), "SPEC_ERROR") << status;
    EXPECT_TRUE(out.Finish().ok());
    EXPECT_EQ(out.num_files(), 0);
  }
}

TEST_F(PredictionFilesTest, WithoutASample_ThereIsNoFile) {
  EXPECT_TRUE(FilesOf(v1::PredictSpec::JSON_LINES, 0, 4).empty());
}

}  // namespace
}  // namespace ampd::train
