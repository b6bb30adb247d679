// Checks that admission refuses a spec without a field that is marked as required, and names the field.

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "server/admission/admission.h"
#include "tests/server/admission/admissible_specs.h"
#include "tests/server/admission/spec_facts.h"

namespace ampd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;

// A function that returns one of the messages within a copy of the spec.
using Locate = std::function<Message*(v1::JobSpec*)>;

// Adds the full names of all required fields of the message type, and of the types of its fields.
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

// Clears the required fields of the message and of the messages within it, one at a time, and expects admission to name
// the missing field.
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
  for (const v1::JobSpec& spec : AdmissibleSpecs()) {
    const auto admitted = AdmitSpec(spec);
    ASSERT_TRUE(admitted.ok()) << admitted.status();
    ClearEach(
        spec, [](v1::JobSpec* root) { return root; }, "", &cleared);
  }
  std::set<std::string> seen;
  std::set<std::string> required;
  AddRequired(*v1::JobSpec::descriptor(), &seen, &required);
  EXPECT_EQ(cleared, required) << "AdmissibleSpecs() must set every required field";
}

}  // namespace
}  // namespace ampd::server
