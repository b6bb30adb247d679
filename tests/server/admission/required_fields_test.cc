// Checks that admission refuses a spec without a field that is marked as required, and names the field.

#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "google/api/field_behavior.pb.h"
#include "server/admission/admission.h"

namespace ampd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// Returns a certain message within a copy of the spec.
using Locate = std::function<Message*(v1::JobSpec*)>;

// Admissible specs. Together they set every required field.
std::vector<v1::JobSpec> Specs() {
  const char* const texts[] = {
      R"(name: "a" model {mlp {in_features: 784}} data {train {idx {images: "d/i" labels: "d/l"}} batch_size: 8}
         optimizer {sgd {learning_rate: 0.1} groups {match: "*" learning_rate: 0.2}} train {steps: 10}
         precision {loss_scale {fixed {scale: 8}} op_rules {match: "aten.mm*" policy: fp32}
                    module_rules {match: "head" compute: fp32}})",
      R"(name: "b" model {mlp {in_features: 3072}} data {train {cifar {files: "d/a"}} batch_size: 8}
         optimizer {adam {learning_rate: 0.1}} train {epochs: 1} schedule {step {every_steps: 5 factor: 0.5}})",
      R"(name: "c" model {mlp {in_features: 4}} data {train {safetensors {file: "d/a"}} batch_size: 8}
         optimizer {adamw {learning_rate: 0.1}} train {steps: 10})",
      R"(name: "d" model {gpt2 {}} data {train {tokens {path: "d/t" sequence_length: 64}} batch_size: 8}
         optimizer {adamw {learning_rate: 0.1}} train {steps: 10})",
      R"(name: "e" model {bert_classifier {}} data {train {jsonl {path: "d/t" sequence_length: 64}} batch_size: 8}
         optimizer {adamw {learning_rate: 0.1}} train {steps: 10})",
      R"(name: "f" model {mlp {in_features: 4} initial_checkpoint {job_id: "j-aaaaaaaaaaaaaaaa"}}
         data {train {synthetic {shape: 4 num_classes: 2 num_samples: 8}} batch_size: 8}
         optimizer {adamw {learning_rate: 0.1}} train {steps: 10})"};
  std::vector<v1::JobSpec> specs;
  for (const char* text : texts) {
    EXPECT_TRUE(google::protobuf::TextFormat::ParseFromString(text, &specs.emplace_back())) << text;
  }
  return specs;
}

bool IsRequired(const FieldDescriptor& field) {
  const auto& options = field.options();
  for (int i = 0; i < options.ExtensionSize(google::api::field_behavior); ++i) {
    if (options.GetExtension(google::api::field_behavior, i) == google::api::REQUIRED) {
      return true;
    }
  }
  return false;
}

// Adds the full names of the required fields of the message and of those below it.
void AddRequired(const Descriptor& type, std::set<std::string>* seen, std::set<std::string>* required) {
  if (!seen->insert(type.full_name()).second) {
    return;
  }
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    if (IsRequired(field)) {
      required->insert(field.full_name());
    }
    if (field.message_type() != nullptr && !field.is_map()) {
      AddRequired(*field.message_type(), seen, required);
    }
  }
}

void ExpectRefusedWithout(const FieldDescriptor& field, const std::string& path, const v1::JobSpec& spec,
                          const Locate& locate) {
  v1::JobSpec without = spec;
  Message* const parent = locate(&without);
  parent->GetReflection()->ClearField(parent, &field);
  const auto admitted = AdmitSpec(without);
  EXPECT_EQ(admitted.status().code(), absl::StatusCode::kInvalidArgument) << path << ": " << admitted.status();
  std::vector<std::string> fields;
  for (const FieldViolation& violation : ViolationsOf(admitted.status())) {
    fields.push_back(violation.field);
  }
  // A violation of an element of a list may name the element instead of the field.
  const bool is_named = std::any_of(fields.begin(), fields.end(), [&](const std::string& name) {
    return absl::StartsWith(name, path) || (absl::EndsWith(name, "]") && absl::StartsWith(path, name));
  });
  EXPECT_TRUE(is_named) << "without " << path << ": " << testing::PrintToString(fields);
}

// Clears each required field of the message and of those below it, one at a time.
void ClearEach(const v1::JobSpec& spec, const Locate& locate, const std::string& path, std::set<std::string>* cleared) {
  v1::JobSpec copy = spec;
  const Message& message = *locate(&copy);
  const Reflection& reflection = *message.GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    const std::string name = field->name() == "fixed" ? "static" : field->name();
    const std::string below = path.empty() ? name : absl::StrCat(path, ".", name);
    if (IsRequired(*field)) {
      cleared->insert(field->full_name());
      ExpectRefusedWithout(*field, below, spec, locate);
    }
    if (field->message_type() == nullptr || field->is_map()) {
      continue;
    }
    const auto child = [&locate, field](v1::JobSpec* root) {
      Message* const parent = locate(root);
      const Reflection& of = *parent->GetReflection();
      return field->is_repeated() ? of.MutableRepeatedMessage(parent, field, 0) : of.MutableMessage(parent, field);
    };
    ClearEach(spec, child, field->is_repeated() ? absl::StrCat(below, "[0]") : below, cleared);
  }
}

TEST(RequiredFields, SpecWithoutOne_IsRefusedAndTheFieldIsNamed) {
  std::set<std::string> cleared;
  for (const v1::JobSpec& spec : Specs()) {
    const auto admitted = AdmitSpec(spec);
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    ClearEach(
        spec, [](v1::JobSpec* root) { return root; }, "", &cleared);
  }
  std::set<std::string> seen;
  std::set<std::string> required;
  AddRequired(*v1::JobSpec::descriptor(), &seen, &required);
  EXPECT_EQ(cleared, required) << "the specs of this test must set every required field";
}

}  // namespace
}  // namespace ampd::server
