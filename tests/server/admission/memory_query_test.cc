#include "server/admission/memory_query.h"

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "graph/exported/exported_program.h"
#include "precision/cost/memory.h"
#include "server/admission/admission.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::server {
namespace {

using ::testing::ElementsAre;

// The bytes of a step's batch and of the batches that are loaded ahead of it.
int64_t WithThoseAhead(int64_t batch_bytes) { return batch_bytes + precision::BytesAhead(batch_bytes); }

constexpr char kJob[] = R"(
    name: 'job' model {mlp {in_features: 20 hidden: 30 num_classes: 5}}
    data {train {synthetic {shape: 20 num_classes: 5 num_samples: 100}} batch_size: 8}
    optimizer {adamw {learning_rate: 0.1}} train {steps: 10} )";

// A request to estimate kJob with the fields that `text`, a JobSpec in protobuf's text format, sets.
v1::EstimateJobRequest Request(const std::string& text) {
  v1::EstimateJobRequest request;
  v1::JobSpec change;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(kJob, request.mutable_spec()));
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &change)) << text;
  request.mutable_spec()->MergeFrom(change);
  return request;
}
constexpr int64_t kParameters = 20 * 30 + 30 + 30 * 5 + 5;

v1::EstimateJobResponse Answer(const v1::EstimateJobRequest& request, const std::vector<v1::Worker>& workers = {}) {
  const auto answer = AnswerMemoryQuery(request, workers);
  EXPECT_TRUE(answer.ok()) << answer.status();
  return answer.ok() ? *answer : v1::EstimateJobResponse();
}

// Returns the ways to train that the answer lists, each as text: "bf16 on CPU", with " emulated" at the end if the
// device emulates the preset.
std::vector<std::string> Ways(const v1::EstimateJobResponse& answer) {
  std::vector<std::string> ways;
  for (const auto& candidate : answer.candidates()) {
    ways.push_back(
        absl::StrCat(candidate.precision(), " on ", candidate.device_kind(), candidate.emulated() ? " emulated" : ""));
  }
  return ways;
}

TEST(AnswerMemoryQuery, EveryPresetIsAskedOnEveryKindOfDeviceThatTheJobAllows) {
  EXPECT_THAT(Ways(Answer(Request(""))), ElementsAre("fp32 on CPU", "fp32 on GPU"));
  EXPECT_THAT(Ways(Answer(Request("precision {prefer: 'fp16' prefer: 'tf32'}"))),
              ElementsAre("fp16 on CPU emulated", "fp16 on GPU", "tf32 on GPU"));
  EXPECT_THAT(Ways(Answer(Request("precision {preset: 'bf16'} resources {kind: CPU}"))), ElementsAre("bf16 on CPU"));
  EXPECT_THAT(Ways(Answer(Request("precision {preset: 'bf16'} resources {kind: GPU}"))), ElementsAre("bf16 on GPU"));
}

TEST(AnswerMemoryQuery, BytesFollowPolicyAndOptimizerAndAddUp) {
  const auto bf16 = Answer(Request("precision {preset: 'bf16'} resources {kind: CPU}")).candidates(0);
  EXPECT_EQ(bf16.weight_bytes(), 4 * kParameters);
  EXPECT_EQ(bf16.working_copy_bytes(), 2 * kParameters);
  EXPECT_EQ(bf16.optimizer_bytes(), 8 * kParameters);
  EXPECT_EQ(bf16.input_bytes(), WithThoseAhead(8 * (4 * 20 + 8)));
  EXPECT_GT(bf16.activation_bytes() + bf16.workspace_bytes(), 0);
  EXPECT_EQ(bf16.total_bytes(), bf16.weight_bytes() + bf16.working_copy_bytes() + bf16.optimizer_bytes() +
                                    bf16.input_bytes() + bf16.gradient_bytes() + bf16.activation_bytes() +
                                    bf16.workspace_bytes());
  v1::EstimateJobRequest sgd = Request("");
  sgd.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_learning_rate(1);
  EXPECT_EQ(Answer(sgd).candidates(0).optimizer_bytes(), 0);
  sgd.mutable_spec()->mutable_optimizer()->mutable_sgd()->set_momentum(0.5);
  EXPECT_EQ(Answer(sgd).candidates(0).optimizer_bytes(), 4 * kParameters);
}

TEST(AnswerMemoryQuery, TheLargestBatchIsForTheGivenBytesOrTheSpecs) {
  v1::EstimateJobRequest request = Request("train {gradient_accumulation: 4} resources {memory_bytes: 50000}");
  const auto of_spec = Answer(request);
  EXPECT_EQ(of_spec.memory_bytes(), 50000);
  const int64_t largest = of_spec.candidates(0).largest_batch_size();
  EXPECT_GT(largest, 0);
  EXPECT_EQ(largest % 4, 0) << "micro-batches are of one size";
  request.mutable_spec()->mutable_data()->set_batch_size(static_cast<int32_t>(largest));
  EXPECT_LE(Answer(request).candidates(0).total_bytes(), 50000);
  request.mutable_spec()->mutable_data()->set_batch_size(static_cast<int32_t>(largest + 4));
  EXPECT_GT(Answer(request).candidates(0).total_bytes(), 50000);
  request.set_memory_bytes(100000);
  EXPECT_EQ(Answer(request).memory_bytes(), 100000);
  EXPECT_GT(Answer(request).candidates(0).largest_batch_size(), largest);
  request.set_memory_bytes(1000);
  EXPECT_EQ(Answer(request).candidates(0).largest_batch_size(), 0);
}

TEST(AnswerMemoryQuery, TheLargestBatchIsOneThatAJobMayHave) {
  v1::EstimateJobRequest request = Request("");
  request.set_memory_bytes(int64_t{1} << 50);
  EXPECT_EQ(Answer(request).candidates(0).largest_batch_size(), 1 << 20);
  v1::EstimateJobRequest in_parts = Request("train {gradient_accumulation: 3} data {batch_size: 9}");
  in_parts.set_memory_bytes(int64_t{1} << 50);
  EXPECT_EQ(Answer(in_parts).candidates(0).largest_batch_size(), (1 << 20) / 3 * 3);
}

TEST(AnswerMemoryQuery, LongerSequencesTakeMore) {
  const auto of_length = [](int length) {
    return Answer(
               Request(absl::StrCat("model {gpt2 {n_layer: 2 n_embd: 64 n_head: 2 n_positions: 256 vocab_size: 100}} "
                                    "data {train {tokens {path: 'text/x' sequence_length: ",
                                    length, "}}} resources {kind: CPU}")))
        .candidates(0);
  };
  const auto half = of_length(128);
  const auto whole = of_length(256);
  EXPECT_EQ(half.input_bytes(), WithThoseAhead(8 * 8 * 2 * 128));
  EXPECT_EQ(whole.input_bytes(), WithThoseAhead(8 * 8 * 2 * 256));
  EXPECT_EQ(whole.weight_bytes(), half.weight_bytes());
  EXPECT_NEAR(static_cast<double>(whole.activation_bytes()), 2.0 * static_cast<double>(half.activation_bytes()),
              0.1 * static_cast<double>(whole.activation_bytes()));
}

// A worker with one device.
v1::Worker WorkerWith(const std::string& name, v1::Device::Kind kind, int64_t memory_bytes, int capability_major = 0) {
  v1::Worker worker;
  worker.set_name(name);
  v1::Device& device = *worker.add_devices();
  device.set_id(kind == v1::Device::CPU ? "cpu" : "gpu0");
  device.set_kind(kind);
  device.set_capability_major(capability_major);
  device.set_memory_total_bytes(memory_bytes);
  return worker;
}

// Returns the workers' devices that the answer lists, with their memory in bytes: "CPU: w1/cpu of 100". For each
// device, also asks again with memory_bytes set to the memory of the device, and checks that both answers have the same
// largest batch size.
std::vector<std::string> Fits(const v1::EstimateJobRequest& request, const v1::EstimateJobResponse& answer) {
  std::vector<std::string> fits;
  for (int i = 0; i < answer.candidates_size(); ++i) {
    for (const auto& fit : answer.candidates(i).fits()) {
      v1::EstimateJobRequest given = request;
      given.set_memory_bytes(fit.memory_bytes());
      EXPECT_EQ(fit.largest_batch_size(), Answer(given).candidates(i).largest_batch_size());
      EXPECT_GT(fit.largest_batch_size(), 0);
      fits.push_back(absl::StrCat(answer.candidates(i).device_kind(), ": ", fit.worker(), "/", fit.device(), " of ",
                                  fit.memory_bytes()));
    }
  }
  return fits;
}

TEST(AnswerMemoryQuery, WithoutBytesTheLargestBatchIsForTheSmallestAndTheLargestDeviceOfTheWorkers) {
  const std::vector<v1::Worker> workers = {
      WorkerWith("w1", v1::Device::CPU, 200'000), WorkerWith("w2", v1::Device::CPU, 100'000),
      WorkerWith("w3", v1::Device::CPU, 300'000), WorkerWith("w4", v1::Device::GPU, 5'000'000'000, 8),
      WorkerWith("w5", v1::Device::GPU, 4'000'000'000, 7)};
  const v1::EstimateJobRequest fp32 = Request("");
  EXPECT_THAT(Fits(fp32, Answer(fp32, workers)),
              ElementsAre("CPU: w2/cpu of 100000", "CPU: w3/cpu of 300000", "GPU: w5/gpu0 of 4000000000",
                          "GPU: w4/gpu0 of 5000000000"));
  const v1::EstimateJobRequest bf16 = Request("precision {preset: 'bf16'} resources {kind: GPU}");
  EXPECT_THAT(Fits(bf16, Answer(bf16, workers)), ElementsAre("GPU: w4/gpu0 of 5000000000")) << "bf16 needs 8.0";
  EXPECT_THAT(Fits(fp32, Answer(fp32)), ElementsAre()) << "no worker";
  const v1::EstimateJobRequest given = Request("resources {memory_bytes: 50000}");
  EXPECT_THAT(Fits(given, Answer(given, workers)), ElementsAre()) << "the spec says which memory";
}

TEST(PredictPeak, IsTheEstimateOfThatPresetOnThatDevice) {
  v1::EstimateJobRequest request = Request("precision {prefer: 'bf16' prefer: 'fp32'} resources {kind: CPU}");
  const auto answer = Answer(request);
  v1::Device cpu = WorkerWith("w", v1::Device::CPU, 1).devices(0);
  cpu.add_instruction_sets("avx512_bf16");
  const auto bf16 = PredictPeak(request.spec(), "bf16", cpu);
  const auto fp32 = PredictPeak(request.spec(), "fp32", cpu);
  ASSERT_TRUE(bf16.ok() && fp32.ok());
  EXPECT_EQ(*bf16, answer.candidates(0).total_bytes());
  EXPECT_EQ(*fp32, answer.candidates(1).total_bytes());
  EXPECT_NE(*bf16, *fp32);
  EXPECT_FALSE(PredictPeak(request.spec(), "no-preset", cpu).ok());
}

TEST(AnswerMemoryQuery, SegmentsOfTheSpecCount) {
  const std::string deep = "model {mlp {hidden: 30 hidden: 30 hidden: 30}} data {batch_size: 1000} ";
  const auto plain = Answer(Request(deep)).candidates(0);
  const auto segmented = Answer(Request(deep + "train {checkpoint_segments: 'layers.?'}")).candidates(0);
  EXPECT_NE(segmented.activation_bytes(), plain.activation_bytes());
  EXPECT_EQ(segmented.weight_bytes(), plain.weight_bytes());
}

TEST(AnswerMemoryQuery, AnEvaluationOfManySamplesCounts) {
  const std::string data = "resources {kind: CPU} data {eval {synthetic {shape: 20 num_classes: 5 num_samples: 5000}}";
  const auto none = Answer(Request("resources {kind: CPU}")).candidates(0);
  const auto of_micro_batches = Answer(Request(data + "}")).candidates(0);
  EXPECT_EQ(of_micro_batches.total_bytes(), none.total_bytes());
  const auto large = Answer(Request(data + " eval_batch_size: 5000}")).candidates(0);
  EXPECT_EQ(large.gradient_bytes(), 0);
  EXPECT_EQ(large.input_bytes(), 5000 * (4 * 20 + 8) + precision::BytesAhead(8 * (4 * 20 + 8)))
      << "beside it those that are gathered ahead";
  EXPECT_GT(large.total_bytes(), none.total_bytes() + int64_t{5000} * 4 * 30);
}

// The numbers of elements in the parameters that the network of tests/graph/exported/exported_net.h trains, and in the
// tensors that it only keeps: running statistics, a frozen bias and a parameter that nothing reads.
constexpr int64_t kExportedTrained = 8 * 27 + 2 * 8 + 32 * 512 + 2 * (32 * 32 + 32) + 10 * 32 + 10;
constexpr int64_t kExportedKept = 2 * 2 * 8 + 32 + 3;

v1::EstimateJobRequest ExportedRequest(const std::string& text = "") {
  v1::EstimateJobRequest request =
      Request(absl::StrCat("model {exported {artifact: '", std::string(64, 'a'),
                           "'}} data {train {idx {images: 'a/b' labels: 'a/c'}}} resources {kind: CPU}"));
  v1::JobSpec change;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &change)) << text;
  request.mutable_spec()->MergeFrom(change);
  return request;
}

TEST(AnswerMemoryQuery, AnExportedModelThatWasReadIsToldAsOneOfTheZoo) {
  const auto model = graph::ParseExportedModel(graph::Net().dump());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto answer = AnswerMemoryQuery(ExportedRequest("precision {preset: 'bf16'}"), {}, &*model);
  ASSERT_TRUE(answer.ok()) << answer.status();
  ASSERT_EQ(answer->candidates_size(), 1);
  const auto& bf16 = answer->candidates(0);
  EXPECT_EQ(bf16.optimizer_bytes(), 8 * kExportedTrained);
  EXPECT_EQ(bf16.weight_bytes(), 4 * (kExportedTrained + kExportedKept));
  EXPECT_EQ(bf16.input_bytes(), WithThoseAhead(8 * (4 * 3 * 8 * 8 + 8)));
  EXPECT_GT(bf16.activation_bytes(), 8 * 4 * 8 * 8 * 8) << "the norm's input";
  v1::Device cpu;
  cpu.set_kind(v1::Device::CPU);
  cpu.add_instruction_sets("avx512_bf16");
  const auto peak = PredictPeak(*AdmitSpec(ExportedRequest("precision {preset: 'bf16'}").spec()), "bf16", cpu, &*model);
  ASSERT_TRUE(peak.ok()) << peak.status();
  EXPECT_EQ(*peak, bf16.total_bytes());
}

TEST(AnswerMemoryQuery, AnExportedModelsOwnProgramForEvaluationCounts) {
  nlohmann::json json = graph::Net();
  json["programs"]["eval"] = json["programs"]["train"];
  graph::GraphOf(json, "eval")["tensor_values"]["second"] = graph::Tensor({graph::kBatch, 1 << 20});
  graph::GraphOf(json, "eval")["tensor_values"]["drop"] = graph::Tensor({graph::kBatch, 1 << 20});
  const auto model = graph::ParseExportedModel(json.dump());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto without = AnswerMemoryQuery(ExportedRequest(), {}, &*model);
  const auto with = AnswerMemoryQuery(ExportedRequest("data {eval {idx {images: 'a/b' labels: 'a/c'}}}"), {}, &*model);
  ASSERT_TRUE(without.ok() && with.ok()) << without.status() << with.status();
  EXPECT_LT(without->candidates(0).total_bytes(), 8 << 20);
  EXPECT_GT(with->candidates(0).total_bytes(), int64_t{8} * 4 << 20);
}

TEST(AnswerMemoryQuery, OfAnExportedModelThatWasNotReadNothingIsKnown) {
  v1::EstimateJobRequest request = ExportedRequest();
  const absl::Status too_large = AnswerMemoryQuery(request, {}).status();
  EXPECT_EQ(too_large.code(), absl::StatusCode::kUnimplemented) << too_large;
  EXPECT_EQ(ReasonOf(too_large), "UNSUPPORTED_FIELD");
  request.mutable_spec()->mutable_model()->mutable_exported()->clear_artifact();
  request.mutable_spec()->mutable_model()->mutable_exported()->set_path("root/net.pt2");
  const absl::Status of_a_path = AnswerMemoryQuery(request, {}).status();
  EXPECT_EQ(of_a_path.code(), absl::StatusCode::kUnimplemented) << of_a_path;
  EXPECT_NE(of_a_path, too_large) << "each says why";
}

TEST(AnswerMemoryQuery, AnExportedModelOfAbsurdSizesIsRefusedBeforeItIsCounted) {
  nlohmann::json json = graph::Net();
  graph::GraphOf(json)["tensor_values"]["conv"] = graph::Tensor({graph::kBatch, 1 << 12, 1 << 12, 1 << 12});
  const auto model = graph::ParseExportedModel(json.dump());
  ASSERT_TRUE(model.ok()) << model.status();
  const auto answer = AnswerMemoryQuery(ExportedRequest("data {batch_size: 1048576}"), {}, &*model);
  ASSERT_EQ(ViolationsOf(answer.status()).size(), 1u) << answer.status();
  EXPECT_EQ(ViolationsOf(answer.status())[0].field, "data.batch_size");
}

TEST(AnswerMemoryQuery, WorkGrowsWithTheLayersAndNotWithTheirSquare) {
  const auto visited = [](int num_layers) {
    const v1::EstimateJobRequest request = Request(absl::StrCat(
        "model {gpt2 {n_layer: ", num_layers, " n_embd: 64 n_head: 2 n_positions: 64 vocab_size: 100}} ",
        "data {train {tokens {path: 'text/x' sequence_length: 64}} batch_size: 1} train {memory_budget_bytes: 1} ",
        "precision {prefer: 'bf16' prefer: 'fp32'}"));
    graph::Work work;
    EXPECT_TRUE(AnswerMemoryQuery(request, {}, nullptr, &work).ok());
    return static_cast<double>(work.num_visited());
  };
  EXPECT_LT(visited(32), 2.5 * visited(16));
  EXPECT_LT(visited(64), 2.5 * visited(32));
}

TEST(AnswerMemoryQuery, StopsWhenNobodyWaits) {
  graph::Work work([] { return true; });
  const auto answer = AnswerMemoryQuery(Request("train {memory_budget_bytes: 1}"), {}, nullptr, &work);
  EXPECT_EQ(answer.status().code(), absl::StatusCode::kCancelled);
}

TEST(AnswerMemoryQuery, MoreLayersOrSamplesThanItTakesAreRefusedByTheirField) {
  const auto layers = AnswerMemoryQuery(Request("model {gpt2 {n_layer: 257}} data {train {tokens {path: 'text/x' "
                                                "sequence_length: 64}}}"),
                                        {});
  ASSERT_FALSE(ViolationsOf(layers.status()).empty()) << layers.status();
  EXPECT_EQ(ViolationsOf(layers.status())[0].field, "model.gpt2.n_layer");
  const auto samples = AnswerMemoryQuery(
      Request("model {gpt2 {n_positions: 65536 vocab_size: 1048576 n_embd: 12 n_head: 1}} data {train "
              "{tokens {path: 'text/x' sequence_length: 65536}} batch_size: 1048576}"),
      {});
  ASSERT_FALSE(ViolationsOf(samples.status()).empty()) << samples.status();
  EXPECT_EQ(ViolationsOf(samples.status())[0].field, "data.batch_size");
}

TEST(AnswerMemoryQuery, AWrongSpecOrSizeIsRefused) {
  v1::EstimateJobRequest request = Request("name: 'Big'");
  EXPECT_EQ(ViolationsOf(AnswerMemoryQuery(request, {}).status())[0].field, "name");
  request = Request("");
  request.set_memory_bytes(-1);
  EXPECT_EQ(ViolationsOf(AnswerMemoryQuery(request, {}).status())[0].field, "memory_bytes");
  EXPECT_THAT(AnswerMemoryQuery({}, {}).status().code(), absl::StatusCode::kInvalidArgument);
}

// The GAN makes images of 1 x 28 x 28 from 8 noise values each. Both networks have weights, moments and gradients; a
// step's input is the images and the noise.
TEST(AnswerMemoryQuery, BothNetworksOfAGanCount) {
  v1::EstimateJobRequest request;
  ASSERT_TRUE(google::protobuf::TextFormat::ParseFromString(R"(
      spec {name: 'gan' model {dcgan {latent_size: 8 generator_features: 4 discriminator_features: 4}}
            data {train {idx {images: 'a/b'}} batch_size: 16} optimizer {adam {learning_rate: 0.1}} train {steps: 10}
            resources {kind: CPU}})",
                                                            &request));
  constexpr int64_t kGenerator = 8 * 8 * 7 * 7 + 2 * 8 + 8 * 4 * 16 + 2 * 4 + 4 * 16;
  constexpr int64_t kDiscriminator = 4 * 16 + 4 * 8 * 16 + 2 * 8 + 8 * 7 * 7;
  // Running statistics are counted once, and once more for each loss that updates them: one loss updates the
  // generator's, both losses update the discriminator's.
  constexpr int64_t kStatistics = 2 * (2 * 8 + 2 * 4) + 3 * 2 * 8;
  const auto fp32 = Answer(request).candidates(0);
  EXPECT_EQ(fp32.optimizer_bytes(), 8 * (kGenerator + kDiscriminator));
  EXPECT_EQ(fp32.weight_bytes(), 4 * (kGenerator + kDiscriminator + kStatistics));
  EXPECT_EQ(fp32.input_bytes(), WithThoseAhead(16 * 4 * (28 * 28 + 8)));
  EXPECT_GT(fp32.largest_batch_size() + fp32.activation_bytes(), 0);
  // The generator is now so large that memory peaks during its loss.
  request.mutable_spec()->mutable_model()->mutable_dcgan()->set_generator_features(64);
  request.mutable_spec()->mutable_precision()->set_preset("fp16");
  request.mutable_spec()->mutable_precision()->mutable_loss_scale()->set_optimizer_skip(v1::LossScale::EACH_ALONE);
  const auto alone = Answer(request).candidates(0);
  request.mutable_spec()->mutable_precision()->mutable_loss_scale()->set_optimizer_skip(v1::LossScale::ALL_TOGETHER);
  EXPECT_GT(Answer(request).candidates(0).total_bytes(), alone.total_bytes())
      << "the discriminator's gradients wait for the generator's";
}

}  // namespace
}  // namespace ampd::server
