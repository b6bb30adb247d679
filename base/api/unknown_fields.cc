#include "base/api/unknown_fields.h"

#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "google/protobuf/descriptor.h"
#include "google/protobuf/unknown_field_set.h"

namespace ampd::server {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::UnknownFieldSet;

// The field number that marks an unreadable message: the largest that a field may have. No message of ampd uses it.
constexpr int kUnreadableMark = FieldDescriptor::kMaxNumber;
constexpr size_t kMaxNumbersShown = 8;
constexpr size_t kMaxViolations = 100;

std::string NumbersOf(const UnknownFieldSet& unknown) {
  std::set<int> numbers;
  for (int i = 0; i < unknown.field_count() && numbers.size() <= kMaxNumbersShown; ++i) {
    numbers.insert(unknown.field(i).number());
  }
  const bool has_more = numbers.size() > kMaxNumbersShown;
  if (has_more) {
    numbers.erase(std::prev(numbers.end()));
  }
  return absl::StrCat(numbers.size() == 1 ? "field " : "fields ", absl::StrJoin(numbers, ", "),
                      has_more ? ", ..." : "");
}

void Collect(const Message& message, const std::string& path, std::vector<FieldViolation>* violations);

// Collects a violation for each message that has unknown fields. Examines only the value of `field` in `message`, with
// all messages inside it. REQUIRES: `field` is set in `message`.
void CollectBelow(const Message& message, const FieldDescriptor& field, const std::string& path,
                  std::vector<FieldViolation>* violations) {
  const auto& reflection = *message.GetReflection();
  if (!field.is_repeated()) {
    return Collect(reflection.GetMessage(message, &field), path, violations);
  }
  for (int i = 0; i < reflection.FieldSize(message, &field); ++i) {
    Collect(reflection.GetRepeatedMessage(message, &field, i), absl::StrCat(path, "[", i, "]"), violations);
  }
}

void Collect(const Message& message, const std::string& path, std::vector<FieldViolation>* violations) {
  if (violations->size() >= kMaxViolations) {
    return;
  }
  const UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  const std::string& type = message.GetDescriptor()->full_name();
  if (!unknown.empty()) {
    violations->push_back({path.empty() ? "request" : path,
                           absl::StrCat("has ", NumbersOf(unknown), ", which ", type,
                                        " of this server does not have; use a client of the server's version")});
  }
  std::vector<const FieldDescriptor*> fields;
  message.GetReflection()->ListFields(message, &fields);
  for (const FieldDescriptor* field : fields) {
    if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
      CollectBelow(message, *field, path.empty() ? field->name() : absl::StrCat(path, ".", field->name()), violations);
    }
  }
}

}  // namespace

absl::Status CheckFieldsAreKnown(const Message& message) {
  std::vector<FieldViolation> violations;
  Collect(message, "", &violations);
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

void MarkUnreadable(Message* message) {
  message->Clear();
  message->GetReflection()->MutableUnknownFields(message)->AddVarint(kUnreadableMark, 1);
}

absl::Status CheckReadable(const Message& message) {
  const UnknownFieldSet& unknown = message.GetReflection()->GetUnknownFields(message);
  if (unknown.empty() || unknown.field(0).number() != kUnreadableMark) {
    return absl::OkStatus();
  }
  return Error(absl::StatusCode::kInvalidArgument, "UNREADABLE_MESSAGE",
               absl::StrCat("the bytes are no ", message.GetDescriptor()->full_name(),
                            " in protobuf's encoding, or a text in it is not UTF-8"));
}

}  // namespace ampd::server
