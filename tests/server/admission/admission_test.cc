#include "server/admission/admission.h"

#include <gmock/gmock.h>
#include <google/protobuf/stubs/logging.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <limits>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/random.h"
#include "tests/server/state/core_fixtures.h"

namespace ampd::server {
namespace {

using testing::ElementsAre;

// Returns the spec with a message in text format merged into it.
v1::JobSpec Changed(v1::JobSpec spec, const std::string& text) {
  v1::JobSpec change;
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &change)) << text;
  spec.MergeFrom(change);
  return spec;
}
v1::JobSpec Changed(const std::string& text) { return Changed(SmallSpec(), text); }

std::vector<std::string> WrongFields(const v1::JobSpec& spec) {
  std::vector<std::string> fields;
  const auto admitted = AdmitSpec(spec);
  EXPECT_EQ(admitted.status().code(), absl::StatusCode::kInvalidArgument) << admitted.status();
  for (const FieldViolation& violation : ViolationsOf(admitted.status())) {
    EXPECT_FALSE(violation.description.empty());
    fields.push_back(violation.field);
  }
  return fields;
}

TEST(AdmitSpec, Defaults_AreFilledIn) {
  const auto admitted = AdmitSpec(SmallSpec());
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().mlp().num_classes(), 10);
  EXPECT_THAT(admitted->model().mlp().hidden(), ElementsAre(256));
  EXPECT_EQ(admitted->precision().preset(), "fp32");
  EXPECT_EQ(admitted->data().eval_batch_size(), 10);
  EXPECT_EQ(AdmitSpec(Changed("train {gradient_accumulation: 5}"))->data().eval_batch_size(), 2) << "a micro-batch";
  EXPECT_EQ(admitted->data().last_batch(), v1::DataSpec::DROP);
  EXPECT_EQ(admitted->train().gradient_accumulation(), 1);
  EXPECT_EQ(admitted->checkpoint().keep(), 2);
  EXPECT_EQ(admitted->max_retries(), 2);
  EXPECT_EQ(admitted->queue(), "default");
  EXPECT_EQ(admitted->resources().devices(), 1);
  EXPECT_EQ(admitted->on_divergence(), v1::JobSpec::FAIL);
  EXPECT_TRUE(admitted->schedule().has_constant());
}

TEST(AdmitSpec, DefaultsOfArrays_AreFilledIn) {
  const auto cifar = AdmitSpec(Changed("model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b'}}}"));
  ASSERT_TRUE(cifar.ok()) << cifar.status();
  EXPECT_EQ(cifar->data().train().cifar().variant(), v1::CifarSource::CIFAR10);
  EXPECT_THAT(cifar->data().train().cifar().mean(), ElementsAre(0));
  EXPECT_THAT(cifar->data().train().cifar().std(), ElementsAre(1));
  const auto npz = AdmitSpec(Changed("data {train {npz {file: 'a/b' labels: 'y'}}}"));
  ASSERT_TRUE(npz.ok()) << npz.status();
  EXPECT_EQ(npz->data().train().npz().images(), "images");
  EXPECT_EQ(npz->data().train().npz().labels(), "y");
  const auto tensors = AdmitSpec(Changed("data {train {safetensors {file: 'a/b' images: 'x'}}}"));
  ASSERT_TRUE(tensors.ok()) << tensors.status();
  EXPECT_EQ(tensors->data().train().safetensors().images(), "x");
  EXPECT_EQ(tensors->data().train().safetensors().labels(), "labels");
}

TEST(AdmitSpec, AugmentationOfImages_IsAdmitted) {
  EXPECT_TRUE(AdmitSpec(Changed("model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b'}} "
                                "augment {crop_padding: 64 flip: true}}"))
                  .ok());
}

TEST(AdmitSpec, EveryWayToEndAnEpoch_IsAdmittedAsItIs) {
  for (const v1::DataSpec::LastBatch last_batch : {v1::DataSpec::DROP, v1::DataSpec::PAD}) {
    v1::JobSpec spec = SmallSpec();
    spec.mutable_data()->set_last_batch(last_batch);
    const auto admitted = AdmitSpec(spec);
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    EXPECT_EQ(admitted->data().last_batch(), last_batch);
  }
  v1::JobSpec spec = SmallSpec();
  spec.mutable_data()->set_last_batch(static_cast<v1::DataSpec::LastBatch>(3));
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.last_batch"));
}

TEST(AdmitSpec, AdmittedSpec_IsAdmittedUnchanged) {
  const auto once = AdmitSpec(SmallSpec());
  EXPECT_EQ(AdmitSpec(*once)->ShortDebugString(), once->ShortDebugString());
}

// Returns a job with a resnet that reduces its images to one pixel.
v1::JobSpec SmallImages(const std::string& text) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_model()->Clear();
  spec.mutable_data()->mutable_train()->mutable_synthetic()->clear_shape();
  spec = Changed(spec, "model {resnet {image_size: 8}} data {train {synthetic {shape: 3 shape: 8 shape: 8}}}");
  return Changed(spec, text);
}

TEST(AdmitSpec, ABatchWithOneValueAChannel_IsRefusedWithTheModuleOfTheNorm) {
  for (const char* change :
       {"data {batch_size: 1}", "train {gradient_accumulation: 10}", "data {train {synthetic {num_samples: 1}}}"}) {
    const auto admitted = AdmitSpec(SmallImages(change));
    ASSERT_THAT(WrongFields(SmallImages(change)), ElementsAre("data.batch_size")) << change;
    EXPECT_THAT(ViolationsOf(admitted.status())[0].description,
                testing::HasSubstr("aten.batch_norm.default of layer2.0.bn1 has 1 value a channel"));
  }
  for (const char* change : {"", "data {batch_size: 2}", "train {gradient_accumulation: 5}",
                             "data {train {synthetic {num_samples: 1}} last_batch: PAD}"}) {
    EXPECT_TRUE(AdmitSpec(SmallImages(change)).ok()) << change << AdmitSpec(SmallImages(change)).status();
  }
}

// A data set that is smaller than a batch is one batch, which must be divisible into the micro-batches of a step.
TEST(AdmitSpec, ASmallDataSetThatCannotBeCutIntoMicroBatches_IsRefusedWithBothNumbers) {
  const auto in_parts = [](int num_parts, const std::string& last_batch) {
    return Changed(absl::StrCat("data {batch_size: 64 train {synthetic {num_samples: 10}} last_batch: ", last_batch,
                                "} train {gradient_accumulation: ", num_parts, "}"));
  };
  ASSERT_THAT(WrongFields(in_parts(4, "DROP")), ElementsAre("train.gradient_accumulation"));
  const std::string description = ViolationsOf(AdmitSpec(in_parts(4, "DROP")).status())[0].description;
  EXPECT_THAT(description, testing::StartsWith("is 4; must divide the samples of a batch: data.batch_size is 64, but "
                                               "the data set has only 10 samples"));
  EXPECT_THAT(description, testing::HasSubstr("data.last_batch to PAD"));
  EXPECT_TRUE(AdmitSpec(in_parts(2, "DROP")).ok()) << AdmitSpec(in_parts(2, "DROP")).status();
  EXPECT_TRUE(AdmitSpec(in_parts(4, "PAD")).ok()) << AdmitSpec(in_parts(4, "PAD")).status();
}

TEST(AdmitSpec, EmptySpec_TellsEverythingThatIsMissing) {
  EXPECT_THAT(WrongFields(v1::JobSpec()),
              ElementsAre("name", "model", "data.train", "data.batch_size", "optimizer", "train"));
  EXPECT_EQ(ViolationsOf(AdmitSpec(v1::JobSpec()).status())[2].description,
            "must have one of idx, cifar, npz, safetensors, synthetic, tokens, jsonl");
}

TEST(AdmitSpec, WrongValues_AreNamedByPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"name: 'Big'", "name"},
      {"name: 'j-aaaaaaaaaaaaaaaa'", "name"},
      {"priority: 1001", "priority"},
      {"max_retries: -1", "max_retries"},
      {"model {mlp {hidden: 0}}", "model.mlp.hidden[0]"},
      {"model {mlp {num_classes: 70000}}", "model.mlp.num_classes"},
      {"model {resnet {depth: 19}}", "model.resnet.depth"},
      {"model {resnet {image_size: 28}}", "data.train.synthetic.shape"},
      {"model {efficientnet_b0 {dropout: 1}}", "model.efficientnet_b0.dropout"},
      {"model {efficientnet_b0 {image_size: 28}}", "data.train.synthetic.shape"},
      {"model {mlp {in_features: 5}}", "data.train.synthetic.shape"},
      {"model {mlp {hidden: 65536 hidden: 65536}}", "model"},
      {"model {initialize_anew: 'head.*'}", "model.initialize_anew"},
      {"model {initial_weights: 'a/b' initialize_anew: 'head.*' initialize_anew: ''}", "model.initialize_anew[1]"},
      {"model {initial_checkpoint {step: 3}}", "model.initial_checkpoint.job_id"},
      {"model {initial_checkpoint {job_id: 'j-a' step: -1}}", "model.initial_checkpoint.step"},
      {"model {initial_weights: 'a/b' initial_checkpoint {job_id: 'j-a'}}", "model.initial_checkpoint"},
      {"data {batch_size: -3}", "data.batch_size"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b'}} augment {crop_padding: -1}}",
       "data.augment.crop_padding"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b'}} augment {crop_padding: 65}}",
       "data.augment.crop_padding"},
      {"data {augment {flip: true}}", "data.augment"},
      {"data {train {idx {images: '../x' labels: 'a/b'}}}", "data.train.idx.images"},
      {"data {train {idx {images: '/etc/passwd' labels: 'a/b'}}}", "data.train.idx.images"},
      {"data {train {idx {images: 'a' labels: 'a/b'}}}", "data.train.idx.images"},
      {"data {train {idx {images: 'a/b' labels: 'a/b' std: 0}}}", "data.train.idx.std"},
      {"data {train {idx {images: 'a/b' labels: 'a/b' std: 1e-40}}}", "data.train.idx.std"},
      {"data {train {idx {images: 'a/b' labels: 'a/b' mean: 1e20 std: 1e-20}}}", "data.train.idx.std"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' std: 1 std: 1e-40 std: 1}}}",
       "data.train.cifar.std[1]"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a'}}}", "data.train.cifar.files[0]"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' files: 'a/../b'}}}",
       "data.train.cifar.files[1]"},
      {"model {mlp {in_features: 3072}} data {train {cifar {variant: CIFAR10}}}", "data.train.cifar.files"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' mean: 0 mean: 1}}}", "data.train.cifar.mean"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' std: 1 std: 1 std: 0}}}",
       "data.train.cifar.std[2]"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' variant: CIFAR100_FINE}}}",
       "data.train.cifar.variant"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' variant: CIFAR100_COARSE}}}",
       "data.train.cifar.variant"},
      {"model {mlp {in_features: 3072}} data {train {cifar {files: 'a/b' limit: -1}}}", "data.train.cifar.limit"},
      {"data {train {cifar {files: 'a/b'}}}", "data.train.cifar"},
      {"data {train {npz {file: 'a'}}}", "data.train.npz.file"},
      {"data {train {npz {file: 'a/b' labels: 'a\\n'}}}", "data.train.npz.labels"},
      {"data {train {npz {images: 'x_train' labels: 'a/b'}}}", "data.train.npz.images"},
      {"data {train {npz {images: 'a/b'}}}", "data.train.npz.labels"},
      {"data {train {npz {file: 'a/b' std: -1}}}", "data.train.npz.std[0]"},
      {"data {train {npz {file: 'a/b' mean: nan}}}", "data.train.npz.mean[0]"},
      {"data {train {safetensors {images: 'x'}}}", "data.train.safetensors.file"},
      {"data {train {safetensors {file: 'a/b' images: 'a\\n'}}}", "data.train.safetensors.images"},
      {"data {train {safetensors {file: 'a/b' std: 0}}}", "data.train.safetensors.std[0]"},
      {"data {train {synthetic {shape: 0}}}", "data.train.synthetic.shape"},
      {"data {train {synthetic {num_classes: 99}}}", "data.train.synthetic.num_classes"},
      {"precision {preset: 'fp31'}", "precision.preset"},
      {"precision {prefer: 'bf16' prefer: 'fp31'}", "precision.prefer[1]"},
      {"precision {preset: 'bf16' prefer: 'bf16'}", "precision.prefer"},
      {"precision {module_rules {compute: fp32}}", "precision.module_rules[0].match"},
      {"precision {op_rules {match: 'aten.*'}}", "precision.op_rules[0]"},
      {"precision {module_rules {match: 'x'}}", "precision.module_rules[0].compute"},
      {"precision {module_rules {match: 'x' compute: bf16 parameter: fp16}}", "precision.module_rules[0].parameter"},
      {"precision {preset: 'fp16' parameter: bf16}", "precision.parameter"},
      {"precision {preset: 'fp16' master: none}", "precision.master"},
      {"precision {compute: bf16 fp32_matmul: tf32} resources {kind: CPU}", "precision.preset"},
      {"precision {loss_scale {fixed {scale: 0}}}", "precision.loss_scale.static.scale"},
      {"precision {loss_scale {fixed {scale: inf}}}", "precision.loss_scale.static.scale"},
      {"precision {loss_scale {dynamic {growth_factor: 1}}}", "precision.loss_scale.dynamic.growth_factor"},
      {"precision {loss_scale {dynamic {backoff_factor: 1}}}", "precision.loss_scale.dynamic.backoff_factor"},
      {"precision {loss_scale {dynamic {floor: 8 cap: 4}}}", "precision.loss_scale.dynamic.floor"},
      {"optimizer {sgd {learning_rate: nan}}", "optimizer.sgd.learning_rate"},
      {"optimizer {sgd {nesterov: true}}", "optimizer.sgd.nesterov"},
      {"optimizer {adamw {learning_rate: 1 beta1: 1}}", "optimizer.adamw.beta1"},
      {"schedule {cosine {final_ratio: 2}}", "schedule.cosine.final_ratio"},
      {"schedule {step {factor: 0.5}}", "schedule.step.every_steps"},
      {"train {steps: 0}", "train.steps"},
      {"train {epochs: -1}", "train.epochs"},
      {"train {gradient_accumulation: 3}", "train.gradient_accumulation"},
      {"train {clip_grad_norm: 0}", "train.clip_grad_norm"},
      {"train {checkpoint_segments: 'layers.*' checkpoint_segments: 'h.*'}", "train.checkpoint_segments[1]"},
      {"eval {every_steps: 5}", "eval.every_steps"},
      {"checkpoint {keep: -1}", "checkpoint.keep"},
      {"checkpoint {keep_best: true}", "checkpoint.keep_best"},
      {"resources {memory_bytes: -1}", "resources.memory_bytes"},
      {"precision {preset: 'tf32'} resources {kind: CPU}", "precision.preset"},
      {"labels {key: '' value: 'x'}", "labels."},
      {"deadline {seconds: 0}", "deadline"},
      {"optimizer {adam {learning_rate: 0}}", "optimizer.adam.learning_rate"},
      {"optimizer {adam {learning_rate: 1 beta2: 1}}", "optimizer.adam.beta2"},
      {"optimizer {ema_decay: 1}", "optimizer.ema_decay"},
      {"optimizer {groups {match: '*' learning_rate: -1}}", "optimizer.groups[0].learning_rate"},
      {"optimizer {groups {match: 'a' weight_decay: 0} groups {match: 'b' weight_decay: -1}}",
       "optimizer.groups[1].weight_decay"},
      {"optimizer {groups {weight_decay: 0}}", "optimizer.groups[0].match"},
      {"optimizer {groups {match: '*'}}", "optimizer.groups[0]"},
      {"schedule {linear {final_ratio: 2}}", "schedule.linear.final_ratio"},
      {"schedule {polynomial {power: 0}}", "schedule.polynomial.power"},
      {"lower_again_after_steps: 100", "lower_again_after_steps"},
      {"on_divergence: ROLL_BACK_AND_RAISE_PRECISION lower_again_after_steps: -1", "lower_again_after_steps"},
      {"schedule {plateau {}}", "schedule.plateau"},
      {"schedule {plateau {}} eval {every_steps: 5}", "eval.every_steps"},
  };
  for (const auto& [change, field] : cases) {
    EXPECT_THAT(WrongFields(Changed(change)), ElementsAre(field)) << change;
  }
}

constexpr char kOnText[] =
    "model {gpt2 {n_layer: 1 n_embd: 8 n_head: 2 n_positions: 16 vocab_size: 64}} "
    "data {train {tokens {path: 'text/train.bin' sequence_length: 16}} eval {tokens {path: 'text/val.bin'}}} ";

TEST(AdmitSpec, ALanguageModelOnText_HasItsDefaults) {
  const auto admitted = AdmitSpec(Changed(kOnText));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().gpt2().dropout(), 0.1);
  EXPECT_EQ(admitted->model().gpt2().size(), v1::Gpt2Spec::SMALL);
  EXPECT_EQ(admitted->data().eval().tokens().sequence_length(), 16);
  EXPECT_EQ(AdmitSpec(*admitted)->ShortDebugString(), admitted->ShortDebugString());
}

TEST(AdmitSpec, AUrlInPlaceOfAPath_IsAnsweredWithWhereTheFileBelongs) {
  const auto admitted = AdmitSpec(Changed("data {train {idx {images: 'https://h/x.gz' labels: 'a/b'}}}"));
  const std::vector<FieldViolation> violations = ViolationsOf(admitted.status());
  ASSERT_EQ(violations.size(), 1);
  EXPECT_EQ(violations[0].field, "data.train.idx.images");
  EXPECT_THAT(violations[0].description, testing::HasSubstr("ampd downloads no files: put the file into a data root"));
}

TEST(AdmitSpec, WrongValuesOfALanguageModel_AreNamedByPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"data {train {tokens {sequence_length: 17}}}", "data.train.tokens.sequence_length"},
      {"data {train {tokens {sequence_length: -1}}}", "data.train.tokens.sequence_length"},
      {"data {eval {tokens {sequence_length: 8}}}", "data.eval.tokens.sequence_length"},
      {"data {train {tokens {path: '../x'}}}", "data.train.tokens.path"},
      {"data {train {tokens {format: 9}}}", "data.train.tokens.format"},
      {"data {eval {tokens {limit: -1}}}", "data.eval.tokens.limit"},
      {"data {augment {flip: true}}", "data.augment"},
      {"data {train {idx {images: 'a/b' labels: 'a/b'}} eval {tokens {sequence_length: 16}}}", "data.train.idx"},
      {"data {eval {synthetic {shape: 16 num_classes: 2 num_samples: 9}}}", "data.eval.synthetic"},
      {"model {gpt2 {n_head: 3}}", "model.gpt2.n_head"},
      {"model {gpt2 {dropout: 1}}", "model.gpt2.dropout"},
      {"model {gpt2 {n_embd: 65536 n_layer: 256}}", "model"},
  };
  for (const auto& [change, field] : cases) {
    EXPECT_THAT(WrongFields(Changed(Changed(kOnText), change)), ElementsAre(field)) << change;
  }
}

constexpr char kOnTexts[] =
    "model {bert_classifier {num_hidden_layers: 1 hidden_size: 8 num_attention_heads: 2 max_position_embeddings: 16 "
    "vocab_size: 64}} "
    "data {train {jsonl {path: 'text/train.jsonl' sequence_length: 16}} eval {jsonl {path: 'text/val.jsonl'}}} ";

TEST(AdmitSpec, AClassifierOfTexts_HasItsDefaults) {
  const auto admitted = AdmitSpec(Changed(kOnTexts));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().bert_classifier().intermediate_size(), 32);
  EXPECT_EQ(admitted->model().bert_classifier().num_labels(), 2);
  EXPECT_EQ(admitted->model().bert_classifier().dropout(), 0.1);
  EXPECT_EQ(admitted->data().eval().jsonl().sequence_length(), 16);
  EXPECT_EQ(AdmitSpec(*admitted)->ShortDebugString(), admitted->ShortDebugString());
}

TEST(AdmitSpec, WrongValuesOfAClassifierOfTexts_AreNamedByPath) {
  const std::pair<const char*, const char*> cases[] = {
      {"data {train {jsonl {sequence_length: 17}}}", "data.train.jsonl.sequence_length"},
      {"data {train {jsonl {sequence_length: -1}}}", "data.train.jsonl.sequence_length"},
      {"data {eval {jsonl {sequence_length: 8}}}", "data.eval.jsonl.sequence_length"},
      {"data {train {jsonl {path: '../x'}}}", "data.train.jsonl.path"},
      {"data {train {jsonl {pad_token: 64}}}", "data.train.jsonl.pad_token"},
      {"data {eval {jsonl {pad_token: -1}}}", "data.eval.jsonl.pad_token"},
      {"data {eval {jsonl {limit: -1}}}", "data.eval.jsonl.limit"},
      {"data {eval {tokens {path: 'a/b' sequence_length: 16}}}", "data.eval.tokens"},
      {"data {eval {synthetic {shape: 16 num_classes: 2 num_samples: 9}}}", "data.eval.synthetic"},
      {"model {bert_classifier {num_attention_heads: 3}}", "model.bert_classifier.num_attention_heads"},
  };
  for (const auto& [change, field] : cases) {
    EXPECT_THAT(WrongFields(Changed(Changed(kOnTexts), change)), ElementsAre(field)) << change;
  }
}

TEST(AdmitSpec, ARecurrentClassifierOfTexts_HasItsDefaults) {
  v1::JobSpec spec = Changed(kOnTexts);
  spec.mutable_model()->mutable_rnn()->set_vocab_size(64);
  const auto admitted = AdmitSpec(spec);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().rnn().cell(), v1::RnnSpec::LSTM);
  EXPECT_EQ(admitted->model().rnn().embedding_size(), 128);
  EXPECT_EQ(admitted->model().rnn().hidden_size(), 256);
  EXPECT_EQ(AdmitSpec(*admitted)->ShortDebugString(), admitted->ShortDebugString());
  spec.mutable_model()->mutable_rnn()->set_vocab_size(0);
  EXPECT_THAT(WrongFields(spec), ElementsAre("model.rnn.vocab_size"));
}

TEST(AdmitSpec, TextsWithoutALength_AreMissingIt) {
  v1::JobSpec spec = Changed(kOnTexts);
  spec.mutable_data()->mutable_train()->mutable_jsonl()->clear_sequence_length();
  spec.mutable_data()->clear_eval();
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.train.jsonl.sequence_length"));
}

TEST(AdmitSpec, AModelOfTextOnTextsOfAClass_IsRefused) {
  v1::JobSpec spec = Changed(kOnTexts);
  *spec.mutable_model() = Changed(kOnText).model();
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.train.jsonl", "data.eval.jsonl"));
}

TEST(AdmitSpec, TextWithoutALength_IsMissingIt) {
  v1::JobSpec spec = Changed(kOnText);
  spec.mutable_data()->mutable_train()->mutable_tokens()->clear_sequence_length();
  spec.mutable_data()->clear_eval();
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.train.tokens.sequence_length"));
}

TEST(AdmitSpec, AModelOfImagesOnText_IsRefused) {
  v1::JobSpec spec = Changed(kOnText);
  *spec.mutable_model() = SmallSpec().model();
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.train.tokens", "data.eval.tokens"));
}

TEST(AdmitSpec, EveryWayToMeetWrongNumbers_IsAdmitted) {
  const std::string falls_back = "precision {preset: 'fp16' loss_scale {dynamic {at_floor: FALL_BACK}}}";
  const std::vector<std::string> changes = {
      "on_divergence: WARN",
      "on_divergence: FAIL",
      "on_divergence: ROLL_BACK",
      "on_divergence: ROLL_BACK_AND_RAISE_PRECISION",
      "train {replay_skipped: true}",
      "on_divergence: ROLL_BACK_AND_RAISE_PRECISION lower_again_after_steps: 100",
      falls_back + " lower_again_after_steps: 1",
      "precision {preset: 'fp16' loss_scale {dynamic {floor: 1 at_floor: FALL_BACK}}}",
  };
  for (const std::string& change : changes) {
    EXPECT_TRUE(AdmitSpec(Changed(change)).ok()) << change << " " << AdmitSpec(Changed(change)).status();
  }
}

TEST(AdmitSpec, APlateauSchedule_HasTorchsDefaultsAndItsLimits) {
  v1::JobSpec spec = Changed("schedule {plateau {}} eval {every_steps: 5}");
  *spec.mutable_data()->mutable_eval() = spec.data().train();
  const auto admitted = AdmitSpec(spec);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->schedule().plateau().ShortDebugString(), "factor: 0.1 patience_evals: 10 threshold: 0.0001");
  v1::PlateauSchedule& plateau = *spec.mutable_schedule()->mutable_plateau();
  plateau.set_patience_evals(0);
  EXPECT_EQ(AdmitSpec(spec)->schedule().plateau().patience_evals(), 0) << "0 is not what is left out";
  plateau.set_factor(1);
  plateau.set_patience_evals(-1);
  plateau.set_threshold(1);
  plateau.set_cooldown_evals(-1);
  plateau.set_min_learning_rate(-1);
  EXPECT_THAT(WrongFields(spec),
              ElementsAre("schedule.plateau.factor", "schedule.plateau.patience_evals", "schedule.plateau.threshold",
                          "schedule.plateau.cooldown_evals", "schedule.plateau.min_learning_rate"));
}

// Returns a spec that evaluates every 5 steps, with a message in text format merged into it.
v1::JobSpec Evaluated(const std::string& change) {
  v1::JobSpec spec = Changed(absl::StrCat("eval {every_steps: 5} ", change));
  *spec.mutable_data()->mutable_eval() = spec.data().train();
  return spec;
}

v1::JobSpec Predicting(const std::string& change = "") {
  v1::JobSpec spec;
  const std::string text =
      "name: 'p' model {lenet {} initial_weights: 'd/w'} data {predict {idx {images: 'd/i'}} batch_size: 64} predict "
      "{}";
  EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &spec));
  return Changed(spec, change);
}

TEST(AdmitSpec, AJobThatPredicts_NeedsNoLabelsAndNothingOfATraining) {
  const auto admitted = AdmitSpec(Predicting());
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->predict().format(), v1::PredictSpec::JSON_LINES);
  EXPECT_EQ(admitted->precision().preset(), "fp32");
  EXPECT_FALSE(admitted->has_train());
  EXPECT_FALSE(admitted->has_optimizer());
  const auto again = AdmitSpec(*admitted);
  ASSERT_TRUE(again.ok()) << again.status();
  EXPECT_EQ(again->SerializeAsString(), admitted->SerializeAsString());
  for (const char* change :
       {"predict {format: NPZ}", "train {num_threads: 2}", "model {lenet {} initial_checkpoint {job_id: 'j'}}",
        "model {exported {path: 'd/m.pt2'}}", "model {mlp {in_features: 784}} data {predict {npz {images: 'd/i.npy'}}}",
        "model {bert_classifier {}} data {predict {jsonl {path: 'd/t' sequence_length: 64}}}",
        "model {gpt2 {}} data {predict {tokens {path: 'd/t' sequence_length: 64}}}",
        // A job that only predicts updates no parameters, so parameters in bf16 need no fp32 masters.
        "precision {preset: 'bf16' parameter: bf16 master: none}",
        // A job that only predicts reads no labels, so it does not matter how many classes the data has.
        "model {mlp {in_features: 3072}} data {predict {cifar {files: 'd/a' variant: CIFAR100_FINE}}}",
        "model {mlp {in_features: 4}} data {predict {synthetic {shape: 4 num_classes: 99 num_samples: 4}}}"}) {
    v1::JobSpec spec = Predicting(change);
    if (spec.model().has_initial_checkpoint()) {
      spec.mutable_model()->clear_initial_weights();
    }
    EXPECT_TRUE(AdmitSpec(spec).ok()) << change << ": " << AdmitSpec(spec).status();
  }
}

TEST(AdmitSpec, AJobThatPredicts_IsRefusedWithWhatTrains) {
  for (const auto& [change, field] : std::vector<std::pair<std::string, std::string>>{
           {"optimizer {sgd {learning_rate: 1}}", "optimizer"},
           {"schedule {}", "schedule"},
           {"eval {}", "eval"},
           {"checkpoint {}", "checkpoint"},
           {"sample {}", "sample"},
           {"train {steps: 5}", "train.steps"},
           {"train {seed: 5}", "train.seed"},
           {"data {train {synthetic {}}}", "data.train"},
           {"data {eval {synthetic {}}}", "data.eval"},
           {"data {eval_batch_size: 5}", "data.eval_batch_size"},
           {"data {last_batch: PAD}", "data.last_batch"},
           {"on_divergence: WARN", "on_divergence"},
           {"model {initialize_anew: '*'}", "model.initialize_anew"},
           {"predict {format: 9}", "predict.format"},
           {"data {batch_size: -1}", "data.batch_size"},
           {"data {predict {idx {std: -1}}}", "data.predict.idx.std"},
           {"model {gpt2 {}} data {predict {tokens {path: 'd/t' sequence_length: 9999}}}",
            "data.predict.tokens.sequence_length"},
           {"model {mlp {in_features: 3}} data {predict {synthetic {shape: 5 num_classes: 2 num_samples: 4}}}",
            "data.predict.synthetic.shape"},
           {"model {exported {path: 'd/m' head: OWN_LOSS}}", "predict"}}) {
    EXPECT_THAT(WrongFields(Predicting(change)), ElementsAre(field)) << change;
  }
  v1::JobSpec random = Predicting();
  random.mutable_model()->clear_initial_weights();
  EXPECT_THAT(WrongFields(random), ElementsAre("predict"));
  EXPECT_THAT(WrongFields(Predicting("model {dcgan {image_size: 28}}")), ElementsAre("predict"));
  v1::JobSpec without = Predicting();
  without.mutable_data()->clear_predict();
  EXPECT_THAT(WrongFields(without), ElementsAre("data.predict"));
  EXPECT_THAT(WrongFields(Changed("data {predict {synthetic {shape: 784 num_classes: 2 num_samples: 4}}}")),
              ElementsAre("data.predict"))
      << "the job does not predict";
}

TEST(AdmitSpec, EarlyStopping_HasItsDefaultsAndItsLimits) {
  const auto admitted = AdmitSpec(Evaluated("train {early_stopping {}}"));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->train().early_stopping().ShortDebugString(), "metric: EVAL_LOSS patience: 3");
  EXPECT_FALSE(AdmitSpec(Evaluated(""))->train().has_early_stopping()) << "a job without it trains all steps";
  EXPECT_TRUE(AdmitSpec(Evaluated("train {early_stopping {metric: EVAL_ACCURACY patience: 1 min_delta: 0.5}}")).ok());
  for (const char* const patience : {"0", "-1", "1000001"}) {
    EXPECT_THAT(WrongFields(Evaluated(absl::StrCat("train {early_stopping {patience: ", patience, "}}"))),
                ElementsAre("train.early_stopping.patience"))
        << patience;
  }
  for (const char* const delta : {"-0.1", "nan", "inf", "2e30"}) {
    EXPECT_THAT(WrongFields(Evaluated(absl::StrCat("train {early_stopping {min_delta: ", delta, "}}"))),
                ElementsAre("train.early_stopping.min_delta"))
        << delta;
  }
  v1::JobSpec unknown = Evaluated("train {early_stopping {}}");
  unknown.mutable_train()->mutable_early_stopping()->set_metric(static_cast<v1::EarlyStopping::Metric>(9));
  EXPECT_THAT(WrongFields(unknown), ElementsAre("train.early_stopping.metric"));
}

TEST(AdmitSpec, EarlyStoppingWithoutEvaluations_IsRefused) {
  EXPECT_THAT(WrongFields(Changed("train {early_stopping {}}")), ElementsAre("train.early_stopping"));
  v1::JobSpec only_at_the_end = Evaluated("train {early_stopping {}}");
  only_at_the_end.clear_eval();
  EXPECT_THAT(WrongFields(only_at_the_end), ElementsAre("train.early_stopping"));
}

TEST(AdmitSpec, SegmentsOfModulesThatTheModelHas_AreAdmitted) {
  const auto admitted = AdmitSpec(Changed("train {checkpoint_segments: 'layers.?'}"));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_THAT(admitted->train().checkpoint_segments(), ElementsAre("layers.?"));
  v1::JobSpec many = SmallSpec();
  for (int i = 0; i < 65; ++i) {
    many.mutable_train()->add_checkpoint_segments("layers.?");
  }
  EXPECT_THAT(WrongFields(many), ElementsAre("train.checkpoint_segments"));
  EXPECT_THAT(WrongFields(Changed("train {checkpoint_segments: 'layers.?' memory_budget_bytes: 1000000}")),
              ElementsAre("train.memory_budget_bytes"));
  EXPECT_TRUE(AdmitSpec(Changed("train {memory_budget_bytes: 1000000}")).ok());
}

// Returns a job with a GAN on images without labels, changed by `text`.
v1::JobSpec Gan(const std::string& text = "") {
  v1::JobSpec spec = Changed("model {dcgan {}} data {train {idx {images: 'a/b'}}} optimizer {adam {learning_rate: 1}}");
  return Changed(std::move(spec), text);
}

TEST(AdmitSpec, AGanNeedsNoLabelsWhereverItsImagesLie) {
  const auto admitted = AdmitSpec(Gan());
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().dcgan().image_size(), 28);
  EXPECT_EQ(admitted->model().dcgan().latent_size(), 100);
  const auto admits = [](const std::string& text) {
    const auto result = AdmitSpec(Gan(text));
    EXPECT_TRUE(result.ok()) << text << ": " << result.status();
  };
  admits("data {train {idx {labels: 'a/c'}}}");
  admits("data {train {npz {images: 'a/b.npy'}}}");
  admits("model {dcgan {image_size: 32 channels: 3}} data {train {cifar {files: 'a/b' variant: CIFAR100_FINE}}}");
  admits("data {train {synthetic {shape: 784 num_classes: 2000 num_samples: 9}}}");
  admits("data {augment {flip: true}}");
  admits("train {gradient_accumulation: 2 clip_grad_norm: 1 checkpoint_segments: 'generator.main.*'}");
  admits("optimizer {ema_decay: 0.9 groups {match: 'discriminator.*' learning_rate: 0.5}}");
  admits("precision {preset: 'fp16' loss_scale {optimizer_skip: ALL_TOGETHER}}");
  EXPECT_THAT(WrongFields(Gan("data {train {idx {labels: 'a'}}}")), ElementsAre("data.train.idx.labels"));
  EXPECT_THAT(WrongFields(Changed("data {train {idx {images: 'a/b'}}}")), ElementsAre("data.train.idx.labels"));
}

TEST(AdmitSpec, WhatAGanHasNotIsRefused) {
  const auto wrong = [](const std::string& text) { return WrongFields(Gan(text)); };
  const std::string eval = "data {eval {idx {images: 'a/b' labels: 'a/c'}}}";
  EXPECT_THAT(wrong(eval), ElementsAre("data.eval"));
  EXPECT_THAT(wrong(eval + " eval {every_steps: 3} checkpoint {keep_best: true} schedule {plateau {}}"),
              ElementsAre("data.eval"));
  EXPECT_THAT(wrong("eval {every_steps: 3}"), ElementsAre("eval.every_steps"));
  EXPECT_THAT(wrong("checkpoint {keep_best: true}"), ElementsAre("checkpoint.keep_best"));
  EXPECT_THAT(wrong("schedule {plateau {}}"), ElementsAre("schedule.plateau"));
  EXPECT_THAT(wrong("train {replay_skipped: true}"), ElementsAre("train.replay_skipped"));
  EXPECT_THAT(wrong("train {early_stopping {}}"), ElementsAre("train.early_stopping"));
  EXPECT_THAT(wrong("train {checkpoint_segments: 'encoder'}"), ElementsAre("train.checkpoint_segments[0]"));
  EXPECT_THAT(wrong("data {train {tokens {path: 'a/b' sequence_length: 8}}}"), ElementsAre("data.train.tokens"));
  EXPECT_THAT(wrong("data {train {cifar {files: 'a/b'}}}"), ElementsAre("data.train.cifar"));
  EXPECT_THAT(wrong("data {train {synthetic {shape: 783 num_classes: 2 num_samples: 9}}}"),
              ElementsAre("data.train.synthetic.shape"));
  EXPECT_THAT(wrong("model {dcgan {image_size: 30 latent_size: -1}} data {train {idx {labels: 'a/c'}}}"),
              ElementsAre("model.dcgan.image_size", "model.dcgan.latent_size"));
  EXPECT_THAT(wrong("precision {preset: 'fp8'}"), ElementsAre("precision.preset"))
      << "it has no linear layer, and FP8 is for those";
  EXPECT_TRUE(AdmitSpec(Gan("precision {prefer: 'fp8' prefer: 'bf16'}")).ok());
}

v1::JobSpec GptWithSample(const std::string& sample) { return Changed(Changed(kOnText), "sample {" + sample + "}"); }

TEST(AdmitSpec, ASampleOfText_HasItsDefaults) {
  const auto admitted = AdmitSpec(GptWithSample("every_steps: 10 text {}"));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->sample().every_steps(), 10);
  EXPECT_EQ(admitted->sample().text().prompt(), "\n");
  EXPECT_EQ(admitted->sample().text().tokens(), 200);
  EXPECT_EQ(admitted->sample().text().temperature(), 1);
  EXPECT_EQ(admitted->sample().text().top_k(), 0);
  EXPECT_EQ(AdmitSpec(*admitted)->ShortDebugString(), admitted->ShortDebugString());
  const auto likeliest = AdmitSpec(GptWithSample("text {prompt: '  ' tokens: 4096 temperature: 0 top_k: 64}"));
  ASSERT_TRUE(likeliest.ok()) << likeliest.status();
  EXPECT_EQ(likeliest->sample().text().temperature(), 0);
  EXPECT_FALSE(AdmitSpec(Changed(kOnText))->has_sample()) << "none is drawn where none is asked for";
}

TEST(AdmitSpec, ASampleOfImages_HasItsDefaultsAndFitsItsFile) {
  const auto admitted = AdmitSpec(Gan("sample {images {}}"));
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->sample().images().rows(), 8);
  EXPECT_EQ(AdmitSpec(*admitted)->ShortDebugString(), admitted->ShortDebugString());
  EXPECT_TRUE(AdmitSpec(Gan("sample {images {rows: 16}}")).ok());
  EXPECT_TRUE(AdmitSpec(Gan("model {dcgan {image_size: 64 channels: 3}} sample {images {rows: 8}}")).ok());
  EXPECT_THAT(WrongFields(Gan("model {dcgan {image_size: 64 channels: 3}} sample {images {rows: 9}}")),
              ElementsAre("sample.images.rows"))
      << "of noise the file could have more than 1 MiB";
}

TEST(AdmitSpec, WrongValuesOfASample_AreNamedByPath) {
  const std::pair<const char*, const char*> of_gpt[] = {
      {"every_steps: -1 text {}", "sample.every_steps"},
      {"every_steps: 3", "sample"},
      {"images {}", "sample.images"},
      {"text {tokens: -1}", "sample.text.tokens"},
      {"text {tokens: 4097}", "sample.text.tokens"},
      {"text {temperature: -0.1}", "sample.text.temperature"},
      {"text {temperature: nan}", "sample.text.temperature"},
      {"text {top_k: -1}", "sample.text.top_k"},
      {"text {top_k: 65}", "sample.text.top_k"},
      {"text {prompt: 'In'}", "sample.text.prompt"},
  };
  for (const auto& [sample, field] : of_gpt) {
    EXPECT_THAT(WrongFields(GptWithSample(sample)), ElementsAre(field)) << sample;
  }
  EXPECT_THAT(WrongFields(GptWithSample("text {prompt: '" + std::string(4097, '!') + "'}")),
              ElementsAre("sample.text.prompt"));
  EXPECT_THAT(WrongFields(Changed(GptWithSample("text {}"), "model {gpt2 {vocab_size: 10}}")),
              ElementsAre("sample.text.prompt"))
      << "the line break that it would begin with";
  EXPECT_THAT(WrongFields(Changed(GptWithSample("text {}"), "model {gpt2 {vocab_size: 257}}")),
              ElementsAre("sample.text"));
  EXPECT_THAT(WrongFields(Changed(GptWithSample("text {}"), "model {gpt2 {n_head: 3}}")),
              ElementsAre("model.gpt2.n_head"));
  EXPECT_THAT(WrongFields(Gan("sample {text {}}")), ElementsAre("sample.text"));
  EXPECT_THAT(WrongFields(Gan("sample {images {rows: 17}}")), ElementsAre("sample.images.rows"));
  EXPECT_THAT(WrongFields(Gan("sample {images {rows: -1}}")), ElementsAre("sample.images.rows"));
  EXPECT_THAT(WrongFields(Gan("model {dcgan {channels: 2}} sample {images {}}")), ElementsAre("sample.images"));
  EXPECT_THAT(WrongFields(Gan("model {dcgan {image_size: 2147483647}} data {train {idx {labels: 'a/c'}}} "
                              "sample {images {}}")),
              ElementsAre("model.dcgan.image_size"));
  for (const char* kind : {"text {}", "images {}"}) {
    EXPECT_EQ(WrongFields(Changed(std::string("sample {") + kind + "}")).size(), 1u) << "an mlp makes nothing";
    EXPECT_EQ(WrongFields(Changed(std::string("model {exported {path: 'a/b'}} sample {") + kind + "}")).size(), 1u);
  }
}

TEST(AdmitSpec, AnExportedModelIsTakenUnseen) {
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'root/my.pt2'}}")).ok());
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'root/my.pt2'}} precision {preset: 'fp8'}")).ok())
      << "whether a layer can compute in FP8 is for the worker to find";
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'root/my.pt2'}} train {checkpoint_segments: 'a.*'}")).ok());
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'a/b' inputs {key: 'mask' value: 'attention_mask'}}}")).ok());
  EXPECT_THAT(WrongFields(Changed("model {exported {path: 'a/b' inputs {key: '' value: 'images'}}}")),
              ElementsAre("model.exported.inputs"));
  EXPECT_THAT(WrongFields(Changed("model {exported {}}")), ElementsAre("model.exported"));
  EXPECT_THAT(WrongFields(Changed("model {exported {path: 'root/../my.pt2'}}")), ElementsAre("model.exported.path"));
  const auto counts = [](const std::string& more) {
    return WrongFields(Changed("model {exported {path: 'root/my.pt2' " + more + "}}"));
  };
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'root/my.pt2' head: OWN_LOSS count_output: 1}}")).ok());
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {path: 'a/b' head: OWN_LOSS output: 1 count_output: 0}}")).ok());
  for (const char* const wrong : {"count_output: 1", "head: CLASSIFICATION count_output: 1",
                                  "head: OWN_LOSS count_output: 0", "head: OWN_LOSS count_output: -1"}) {
    EXPECT_THAT(counts(wrong), ElementsAre("model.exported.count_output")) << wrong;
  }
  EXPECT_THAT(WrongFields(Changed("model {exported {path: 'root/my.pt2' output: -1}}")),
              ElementsAre("model.exported.output"));
}

TEST(AdmitSpec, AnExportedModelIsOfAnUploadedFileOrOfAPath) {
  const std::string digest = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
  EXPECT_TRUE(AdmitSpec(Changed("model {exported {artifact: '" + digest + "'}}")).ok());
  EXPECT_THAT(WrongFields(Changed("model {exported {artifact: '" + digest + "' path: 'a/b'}}")),
              ElementsAre("model.exported.path"));
  for (const std::string& name : {std::string("x"), digest.substr(1), digest + "0", "G" + digest.substr(1),
                                  "A" + digest.substr(1), "/" + digest.substr(1)}) {
    EXPECT_THAT(WrongFields(Changed("model {exported {artifact: '" + name + "'}}")),
                ElementsAre("model.exported.artifact"))
        << name;
  }
}

TEST(AdmitSpec, HeadsThatTakeNumbers_TakeDataThatMayHaveThem) {
  const std::string arrays = " data {train {npz {file: 'a/b'}} eval {safetensors {file: 'a/c'}}}";
  for (const char* head : {"REGRESSION", "MULTI_LABEL", "OWN_LOSS", "CLASSIFICATION"}) {
    const std::string model = absl::StrCat("model {exported {path: 'a/b' head: ", head, "}}");
    EXPECT_TRUE(AdmitSpec(Changed(model + arrays)).ok()) << head;
    const bool takes_classes = std::string_view(head) == "OWN_LOSS" || std::string_view(head) == "CLASSIFICATION";
    EXPECT_EQ(AdmitSpec(Changed(model)).ok(), takes_classes) << head << " of synthetic data";
  }
  EXPECT_THAT(WrongFields(Changed("model {exported {path: 'a/b' head: REGRESSION}}")), ElementsAre("data.train"));
  EXPECT_THAT(WrongFields(Changed("model {exported {path: 'a/b' head: MULTI_LABEL}} data {train {npz {file: 'a/b'}} "
                                  "eval {cifar {files: 'a/c'}}}")),
              ElementsAre("data.eval"));
  v1::JobSpec spec = SmallSpec();
  spec.mutable_model()->mutable_exported()->set_path("a/b");
  spec.mutable_model()->mutable_exported()->set_head(
      static_cast<v1::ExportedModelSpec::Head>(v1::ExportedModelSpec::Head_MAX + 1));
  EXPECT_THAT(WrongFields(spec), ElementsAre("model.exported.head"));
}

TEST(AdmitSpec, KnownButUnsupported_IsUnimplementedAndNamed) {
  const std::pair<const char*, const char*> cases[] = {
      {"precision {parameter: fp8_e4m3}", "precision.parameter"},
      {"precision {compute: fp8_e4m3}", "precision.compute"},
      {"precision {preset: 'bf16' reduction: bf16}", "precision.reduction"},
      {"model {gpt2 {}} data {train {tokens {path: 'a/b' sequence_length: 16}}} sample {text {merges: 'a/merges.txt'}}",
       "sample.text.merges"},
      {"resources {devices: 2}", "resources.devices"},
      {"queue: 'fast'", "queue"},
  };
  for (const auto& [change, field] : cases) {
    const auto admitted = AdmitSpec(Changed(change));
    EXPECT_EQ(admitted.status().code(), absl::StatusCode::kUnimplemented) << change << " " << admitted.status();
    EXPECT_NE(admitted.status().message().find(field), absl::string_view::npos) << admitted.status();
  }
}

TEST(AdmitSpec, WhatNeedsEvaluations_SaysThatTheirIntervalMustBeAbove0) {
  for (const char* change : {"checkpoint {keep_best: true}", "schedule {plateau {}}", "train {early_stopping {}}"}) {
    const std::vector<FieldViolation> violations = ViolationsOf(AdmitSpec(Changed(change)).status());
    ASSERT_EQ(violations.size(), 1) << change;
    EXPECT_THAT(violations[0].description, ::testing::HasSubstr("eval.every_steps above 0")) << change;
  }
}

TEST(AdmitSpec, SeveralUnsupported_AreAllListedAndTheFirstIsTheErrorInfos) {
  const absl::Status status = AdmitSpec(Changed("queue: 'fast' resources {devices: 2} "
                                                "precision {preset: 'bf16' reduction: bf16}"))
                                  .status();
  EXPECT_EQ(status.code(), absl::StatusCode::kUnimplemented);
  EXPECT_EQ(ReasonOf(status), "UNSUPPORTED_FIELD");
  std::vector<std::string> fields;
  std::vector<std::string> descriptions;
  for (const FieldViolation& violation : ViolationsOf(status)) {
    fields.push_back(violation.field);
    descriptions.push_back(violation.description);
  }
  EXPECT_THAT(descriptions, ::testing::UnorderedElementsAre(
                                "is \"fast\", which is not supported: this server has one queue, \"default\"",
                                "is 2, which is not supported: an attempt runs on one device",
                                "is bf16, which is not supported: an attempt runs on one device"));
  EXPECT_THAT(fields, ::testing::UnorderedElementsAre("queue", "resources.devices", "precision.reduction"));
  EXPECT_EQ(MetadataOf(status).at("field"), fields[0]);
  EXPECT_THAT(std::string(status.message()), ::testing::HasSubstr(" (and 2 more)"));
}

TEST(AdmitSpec, Fp8ThatNoLayerCanComputeIn_IsRefusedUnlessSomethingElseIsLeft) {
  EXPECT_THAT(WrongFields(Changed("precision {preset: 'fp8'}")), ElementsAre("precision.preset"));
  EXPECT_THAT(WrongFields(Changed("precision {preset: 'bf16' fp8 {scaling: CURRENT}}")), ElementsAre("precision.fp8"));
  for (const char* change : {"model {mlp {hidden: 256 hidden: 256}} precision {preset: 'fp8'}",
                             "precision {prefer: 'fp8' prefer: 'bf16'}", "precision {preset: 'fp8' allow_unsafe: true}",
                             "model {mlp {hidden: 256 hidden: 256}} "
                             "precision {preset: 'bf16' module_rules {match: 'layers.2' compute: fp8_e4m3}}"}) {
    const auto admitted = AdmitSpec(Changed(change));
    EXPECT_TRUE(admitted.ok()) << change << ": " << admitted.status();
  }
}

TEST(AdmitSpec, WhatTheTrainersPolicySupports_IsAdmittedAsItIs) {
  for (const char* change :
       {"precision {prefer: 'bf16' prefer: 'fp16' prefer: 'fp32'}",
        "precision {preset: 'bf16' module_rules {match: 'head*' compute: fp32}}",
        "precision {prefer: 'bf16' prefer: 'fp16' module_rules {match: 'head*' compute: fp32}}",
        "precision {preset: 'fp16' op_rules {match: 'aten.linear*' policy: fp32}}",
        "precision {preset: 'bf16' module_rules {match: 'x' compute: fp16}}", "precision {preset: 'auto'}",
        "precision {preset: 'megatron-bf16'}", "precision {preset: 'bf16' cast_mode: CAST}",
        "precision {preset: 'fp32' compute: bf16}"}) {
    const v1::JobSpec spec = Changed(change);
    const auto admitted = AdmitSpec(spec);
    ASSERT_TRUE(admitted.ok()) << change << ": " << admitted.status();
    EXPECT_EQ(admitted->precision().ShortDebugString(), spec.precision().ShortDebugString());
  }
}

TEST(AdmitSpec, LenetTooDeepForItsImage_IsRefused) {
  v1::JobSpec spec = SmallSpec();
  v1::LenetSpec& lenet = *spec.mutable_model()->mutable_lenet();
  lenet.set_image_size(7);
  for (int i = 0; i < 3; ++i) {
    lenet.add_widths(4);
  }
  EXPECT_THAT(WrongFields(spec), testing::Contains("model.lenet.image_size"));
}

TEST(AdmitSpec, ShapeThatIsNone_IsShownBesideOneThatIs) {
  const auto told = [](const std::vector<int64_t>& shape) {
    v1::JobSpec spec = SmallSpec();
    *spec.mutable_data()->mutable_train()->mutable_synthetic()->mutable_shape() = {shape.begin(), shape.end()};
    const auto violations = ViolationsOf(AdmitSpec(spec).status());
    return violations.empty() ? "" : violations[0].description;
  };
  EXPECT_THAT(told({}), testing::StartsWith("is []; must have 1 to 8 positive extents, as [1, 28, 28], "));
  EXPECT_THAT(told({1, -28}), testing::StartsWith("is [1, -28]; "));
  EXPECT_THAT(told(std::vector<int64_t>(1000, 1)), testing::StartsWith("has 1000 extents; "));
}

TEST(AdmitSpec, HugeSpec_IsRefusedBeforeAnythingElse) {
  v1::JobSpec spec = SmallSpec();
  spec.set_name(std::string(kMaxSpecBytes, 'a'));
  EXPECT_THAT(WrongFields(spec), ElementsAre("spec"));
}

TEST(AdmitSpec, Resnet_HasTheDefaultsOfItsStem) {
  v1::JobSpec spec = SmallSpec();
  spec.mutable_model()->mutable_resnet()->set_stem(v1::ResnetSpec::CIFAR);
  v1::SyntheticSource& data = *spec.mutable_data()->mutable_train()->mutable_synthetic();
  data.clear_shape();
  for (const int64_t extent : {3, 32, 32}) {
    data.add_shape(extent);
  }
  data.set_num_classes(10);
  spec.mutable_data()->clear_eval();
  const auto admitted = AdmitSpec(spec);
  ASSERT_TRUE(admitted.ok()) << admitted.status();
  EXPECT_EQ(admitted->model().resnet().depth(), 18);
  EXPECT_EQ(admitted->model().resnet().num_classes(), 10);
  data.set_num_classes(11);
  EXPECT_THAT(WrongFields(spec), ElementsAre("data.train.synthetic.num_classes"));
}

TEST(AdmitSpec, BytesOfAnyKind_NeverCrash) {
  const google::protobuf::LogSilencer silencer;  // Silences messages about bytes that are not UTF-8.
  SeededRandom random(7);
  const std::string valid = SmallSpec().SerializeAsString();
  int parsed = 0;
  for (int i = 0; i < 50'000; ++i) {
    std::string bytes = valid;
    for (uint64_t flips = 1 + random.Next() % 4; flips > 0; --flips) {
      bytes[random.Next() % bytes.size()] = static_cast<char>(random.Next());
    }
    v1::JobSpec spec;
    if (spec.ParseFromString(bytes)) {
      ++parsed;
      (void)AdmitSpec(spec);
    }
  }
  EXPECT_GT(parsed, 1000) << "nearly nothing reached admission";
}

}  // namespace
}  // namespace ampd::server
