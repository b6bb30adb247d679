#include <gmock/gmock.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <zip.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <filesystem>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "ampd/v1/model_file.pb.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::client {
namespace {

using graph::AddCall;
using graph::Net;
using graph::WriteArchive;
using nlohmann::json;
using ::testing::HasSubstr;
using ::testing::StartsWith;

class AmpctlModel : public Ampctl {
 protected:
  void WriteModel(const std::string& name, const json& model) { WriteArchive(folder_ + "/" + name, model); }
};

json WithoutDropout(json model) {
  for (json& node : graph::GraphOf(model)["nodes"]) {
    if (node["target"] == "torch.ops.aten.dropout.default") {
      node["inputs"][2]["arg"] = {{"as_bool", false}};
    } else if (node["target"] == "torch.ops.aten.batch_norm.default") {
      node["inputs"][5]["arg"] = {{"as_bool", false}};
    }
  }
  return model;
}

// Adds three nodes to the model: a cast of the logits, a tensor of ones, and the product of both. Also adds the entry
// "twin", the comparison of the model with its bfloat16 twin (graph/exported/exported_twin.h). The cast is in its list
// "meant": the model asks for the dtype of the cast. The ones are in its list "follows": their dtype follows the dtypes
// of other values.
json WithTwin(json model) {
  const json float32 = {{"as_scalar_type", graph::kFloat}};
  AddCall(model, "to.dtype", {{"self", graph::Named("head")}, {"dtype", float32}}, "to", "", "", {graph::kBatch, 10});
  AddCall(model, "ones.default", {{"size", {{"as_ints", {10}}}}, {"dtype", float32}}, "ones", "", "", {10});
  AddCall(model, "mul.Tensor", {{"self", graph::Named("to")}, {"other", graph::Named("ones")}}, "mul", "", "",
          {graph::kBatch, 10});
  graph::GraphOf(model)["outputs"][0] = graph::Named("mul");
  model["twin"] = {{"format", "ampd.bf16_twin"},
                   {"version", 1},
                   {"programs", {{"train", {{"meant", {"to"}}, {"follows", {"ones"}}}}}}};
  return model;
}

TEST_F(AmpctlModel, WhatPeopleSee_IsAsReviewed) {
  WriteModel("net.pt2", Net());
  json both = Net();
  both["programs"]["eval"] = WithoutDropout(Net())["programs"]["train"];
  WriteModel("both.pt2", both);
  WriteModel("eval_mode.pt2", WithoutDropout(Net()));
  WriteModel("twin.pt2", WithTwin(Net()));
  std::string all;
  for (const char* command : {"model inspect net.pt2", "model inspect both.pt2 --preset bf16 --batch 64 -o wide",
                              "model inspect eval_mode.pt2 --preset fp16 --preset fp8 --device cpu --no-headers",
                              "model inspect twin.pt2 --preset bf16 --preset megatron-bf16"}) {
    const Result result = Run(command, kNoServer);
    EXPECT_EQ(result.exit_code, 0) << command << "\n" << result.err;
    absl::StrAppend(&all, "$ ampctl ", command, "\n", result.out, result.err);
  }
  json hostile = Net();
  graph::GraphOf(hostile)["nodes"][3]["target"] = "torch.ops.aten.sort.default";
  WriteModel("refused.pt2", hostile);
  const Result refused = Run("model inspect refused.pt2", kNoServer);
  EXPECT_EQ(refused.exit_code, 1);
  absl::StrAppend(&all, "$ ampctl model inspect refused.pt2\n", refused.out, refused.err);
  ExpectGolden("tests/golden/client/model_inspect.txt", all);
}

TEST_F(AmpctlModel, Inspect_GivesProgramsAllOfIt) {
  WriteModel("net.pt2", Net());
  for (const char* format : {"json", "jsonl"}) {
    const Result result = Run(absl::StrCat("model inspect net.pt2 --preset bf16 --batch 8 -o ", format), kNoServer);
    EXPECT_EQ(result.exit_code, 0) << result.err;
    v1::ModelFile file;
    ASSERT_TRUE(google::protobuf::util::JsonStringToMessage(result.out, &file).ok()) << result.out;
    EXPECT_EQ(file.path(), "net.pt2");
    EXPECT_EQ(file.size_bytes(), static_cast<int64_t>(std::filesystem::file_size(folder_ + "/net.pt2")));
    EXPECT_EQ(file.policies_size(), 1);
    EXPECT_GT(file.policies(0).memory().total_bytes(), 0);
    EXPECT_EQ(file.modules_size(), 11);
  }
  EXPECT_THAT(Run("model inspect net.pt2 -o yaml", kNoServer).out, HasSubstr("path: net.pt2\n"));
}

TEST_F(AmpctlModel, AFileThatIsNotAModel_IsOneLineThatNamesTheFile) {
  Write("text", "hello\n");
  Write("cut.pt2", "PK\x03\x04");
  json wrong = Net();
  wrong["programs"]["train"]["schema_version"]["major"] = 9;
  WriteModel("newer.pt2", wrong);
  json cyclic = Net();
  std::swap(graph::GraphOf(cyclic)["nodes"][0], graph::GraphOf(cyclic)["nodes"][2]);
  WriteModel("cyclic.pt2", cyclic);
  ASSERT_EQ(mkfifo((folder_ + "/pipe").c_str(), 0600), 0);
  const std::pair<const char*, const char*> cases[] = {
      {"text", " is not a torch.export file (.pt2), which is a ZIP archive\n"},
      {"cut.pt2", ": not a sound ZIP archive: its end, which lists its files, is missing or damaged\n"},
      {"newer.pt2", ": "},
      {"pipe", " is not a regular file\n"}};
  for (const auto& [name, words] : cases) {
    const Result result = Run(absl::StrCat("model inspect ", name), kNoServer);
    EXPECT_EQ(result.exit_code, 1) << name;
    EXPECT_EQ(result.out, "");
    EXPECT_THAT(result.err, StartsWith(absl::StrCat("error: ", name, words)));
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
  }
  EXPECT_THAT(Run("model inspect newer.pt2", kNoServer).err, HasSubstr("schema_version: is 9; this build reads 8"));
  const Result result = Run("model inspect cyclic.pt2", kNoServer);
  EXPECT_EQ(result.exit_code, 1);
  EXPECT_THAT(result.out, HasSubstr("\nproblem: the tensor conv is read before anything gives it\n"));
  const Result folder = Run("model inspect .", kNoServer);
  EXPECT_EQ(folder.exit_code, 2);
  EXPECT_EQ(folder.err, "error: . is a folder; name a file\n");
  const Result missing = Run("model inspect nowhere", kNoServer);
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(missing.err, HasSubstr("nowhere: No such file"));
}

TEST_F(AmpctlModel, AModelWithoutAllOfItsWeights_FailsAndNamesThem) {
  WriteModel("net.pt2", Net());
  const auto inspect_with = [this](const char* entry, const char* content) {
    WriteModel("short.pt2", Net());
    zip_t* const archive = zip_open((folder_ + "/short.pt2").c_str(), 0, nullptr);
    const auto index = static_cast<uint64_t>(zip_name_locate(archive, entry, 0));
    if (content == nullptr) {
      zip_delete(archive, index);
    } else {
      zip_file_replace(archive, index, zip_source_buffer(archive, content, std::strlen(content), 0), 0);
    }
    zip_close(archive);
    return Run("model inspect short.pt2", kNoServer);
  };
  EXPECT_EQ(Run("model inspect net.pt2", kNoServer).exit_code, 0);
  const Result missing = inspect_with("net/data/weights/weight_of_head_w", nullptr);
  EXPECT_EQ(missing.exit_code, 1);
  EXPECT_THAT(
      missing.err,
      HasSubstr("error: short.pt2: the archive has no data/weights/weight_of_head_w, the content of head.weight"));
  const Result cut = inspect_with("net/data/weights/weight_of_head_w", "four");
  EXPECT_EQ(cut.exit_code, 1);
  EXPECT_THAT(cut.err,
              HasSubstr("data/weights/weight_of_head_w has 4 bytes; head.weight, whose content it is, reaches to"));
}

TEST_F(AmpctlModel, WrongOptionsAreUsageErrors) {
  WriteModel("net.pt2", Net());
  for (const char* options : {"", "net.pt2 --preset bf15", "net.pt2 --batch 0", "net.pt2 --batch 1048577",
                              "net.pt2 --logits -1", "net.pt2 --device tpu", "net.pt2 -o name"}) {
    EXPECT_EQ(Run(absl::StrCat("model inspect ", options), kNoServer).exit_code, 2) << options;
  }
  const Result second = Run("model inspect net.pt2 --logits 1 -o json", kNoServer);
  EXPECT_EQ(second.exit_code, 0);
}

}  // namespace
}  // namespace ampd::client
