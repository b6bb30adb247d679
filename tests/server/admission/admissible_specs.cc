#include "tests/server/admission/admissible_specs.h"

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <string>

namespace ampd::server {

std::vector<v1::JobSpec> AdmissibleSpecs() {
  const std::string adamw = "optimizer {adamw {learning_rate: 0.1}} ";
  const std::string steps = "train {steps: 10} ";
  const std::string vectors = "train {synthetic {shape: 4 num_classes: 2 num_samples: 8}} ";
  const std::string images = "train {npz {file: 'd/a'}} ";
  const auto spec = [&](const std::string& model, const std::string& train, const std::string& rest) {
    return "name: 'a' model {" + model + "} data {" + train + "batch_size: 8} " + rest;
  };
  const auto image_net = [&](const std::string& model) { return spec(model, images, adamw + steps); };
  const std::string texts[] = {
      R"(name: "a" model {mlp {in_features: 784}} data {train {idx {images: "d/i" labels: "d/l"}} batch_size: 8}
         optimizer {sgd {learning_rate: 0.1} groups {match: "*" learning_rate: 0.2}} train {steps: 10}
         precision {loss_scale {fixed {scale: 8}} op_rules {match: "aten.mm*" policy: fp32}
                    module_rules {match: "head" compute: fp32}} schedule {} resources {} checkpoint {} eval {})",
      R"(name: "b" model {mlp {in_features: 3072}} data {train {cifar {files: "d/a"}} augment {} batch_size: 6}
         optimizer {adam {learning_rate: 0.1}} train {epochs: 1} schedule {step {every_steps: 5 factor: 0.5}}
         deadline {seconds: 60} labels {key: "k" value: "v"})",
      spec("mlp {in_features: 4}", "train {safetensors {file: 'd/a'}} ", adamw + steps + "schedule {constant {}}"),
      spec("gpt2 {}", "train {tokens {path: 'd/t' sequence_length: 64}} ", adamw + steps + "schedule {linear {}}"),
      spec("gpt2 {size: MEDIUM}", "train {tokens {path: 'd/t' sequence_length: 64}} ",
           adamw + steps + "schedule {polynomial {power: 1}}"),
      spec("gpt2 {vocab_size: 256}", "train {tokens {path: 'd/t' sequence_length: 64}} ",
           adamw + steps + "sample {text {}}"),
      spec("bert_classifier {}", "train {jsonl {path: 'd/t' sequence_length: 64}} ",
           adamw + steps + "schedule {cosine {}}"),
      spec("bert_classifier {hidden_size: 384}", "train {jsonl {path: 'd/t' sequence_length: 64}} ", adamw + steps),
      spec("mlp {in_features: 4} initial_checkpoint {job_id: 'j-aaaaaaaaaaaaaaaa'}", vectors, adamw + steps),
      spec("mlp {in_features: 4}", vectors + "eval {npz {file: 'd/a'}} ",
           adamw + "train {steps: 10 early_stopping {}} eval {every_steps: 5} schedule {plateau {}}"),
      spec("rnn {vocab_size: 100}", "train {jsonl {path: 'd/t' sequence_length: 64}} ", adamw + steps),
      spec("mlp {in_features: 4}", vectors, adamw + steps + "precision {preset: 'fp16' loss_scale {dynamic {}}}"),
      spec("mlp {in_features: 64 hidden: 64 num_classes: 16}",
           "train {synthetic {shape: 64 num_classes: 16 num_samples: 8}} ",
           adamw + steps +
               "precision {preset: 'fp8' loss_scale {off {}} fp8 {} module_rules {match: '*' compute: fp8_e4m3}}"),
      image_net("lenet {}"),
      image_net("resnet {}"),
      image_net("resnet {stem: CIFAR}"),
      image_net("efficientnet_b0 {}"),
      spec("dcgan {}", images, adamw + steps + "sample {images {}}"),
      spec("lenet {} initial_weights: 'd/w'", "predict {idx {images: 'd/i'}} ", "predict {}"),
      spec("exported {path: 'd/m.pt2' inputs {key: 'x' value: 'images'}}", images, adamw + steps)};
  std::vector<v1::JobSpec> specs;
  for (const std::string& text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &specs.emplace_back())) << text;
  }
  return specs;
}

}  // namespace ampd::server
