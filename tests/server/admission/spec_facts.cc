#include "tests/server/admission/spec_facts.h"

#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <functional>
#include <limits>
#include <regex>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "google/api/field_behavior.pb.h"
#include "server/admission/admission.h"
#include "tests/server/admission/admissible_specs.h"

namespace ampd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::Reflection;
using google::protobuf::SourceLocation;

// A function that returns one of the messages within a spec.
using Locate = std::function<Message*(v1::JobSpec*)>;

// Joins the lines of a comment, except at empty lines.
std::string Joined(const std::string& comment) {
  std::string text(absl::StripAsciiWhitespace(comment));
  text = std::regex_replace(text, std::regex("\n *\n *"), "\1");
  text = std::regex_replace(text, std::regex(" *\n *"), " ");
  return absl::StrReplaceAll(text, {{"\1", "\n\n"}});
}

template <typename Descriptor>
std::string CommentOf(const Descriptor& descriptor) {
  SourceLocation place;
  EXPECT_TRUE(descriptor.GetSourceLocation(&place)) << descriptor.full_name();
  return Joined(place.leading_comments + place.trailing_comments);
}

std::string NameInJobFile(const FieldDescriptor& field) { return field.name() == "fixed" ? "static" : field.name(); }

// Returns the field's value as a job file has it; nothing for messages, lists and values that are not set.
std::optional<std::string> ValueOf(const Message& message, const FieldDescriptor& field) {
  const Reflection& reflection = *message.GetReflection();
  if (field.is_repeated()) {
    const int size = reflection.FieldSize(message, &field);
    if (size == 0 || field.message_type() != nullptr) {
      return std::nullopt;
    }
    std::string list;
    for (int i = 0; i < size; ++i) {
      std::string one;
      google::protobuf::TextFormat::PrintFieldValueToString(message, &field, i, &one);
      absl::StrAppend(&list, i == 0 ? "[" : ", ", one);
    }
    return list + "]";
  }
  if (field.message_type() != nullptr || !reflection.HasField(message, &field)) {
    return std::nullopt;
  }
  std::string value;
  google::protobuf::TextFormat::PrintFieldValueToString(message, &field, -1, &value);
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
    return std::string(absl::StripSuffix(absl::StripPrefix(value, "\""), "\""));
  }
  return value;
}

bool IsNumber(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
         field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
}

// Sets the field, or adds an element to a list, to the largest or the smallest number of its type.
void SetExtreme(Message* message, const FieldDescriptor& field, bool is_largest) {
  const Reflection& reflection = *message->GetReflection();
  reflection.ClearField(message, &field);
  const auto extreme = [is_largest]<typename T>(T /*type*/) {
    return is_largest ? std::numeric_limits<T>::max() : std::numeric_limits<T>::lowest();
  };
  switch (field.cpp_type()) {
    case FieldDescriptor::CPPTYPE_INT32:
      return field.is_repeated() ? reflection.AddInt32(message, &field, extreme(int32_t{}))
                                 : reflection.SetInt32(message, &field, extreme(int32_t{}));
    case FieldDescriptor::CPPTYPE_INT64:
      return field.is_repeated() ? reflection.AddInt64(message, &field, extreme(int64_t{}))
                                 : reflection.SetInt64(message, &field, extreme(int64_t{}));
    default:
      return field.is_repeated() ? reflection.AddDouble(message, &field, extreme(double{}))
                                 : reflection.SetDouble(message, &field, extreme(double{}));
  }
}

// Returns the limit that a refusal names: "1 to 1000" for "is 0; must be 1 to 1000". Returns nothing if the refusal
// names another cause, such as another field that does not fit.
std::optional<std::string> LimitIn(const std::string& description) {
  static const std::regex form(
      R"(^(?:is \S+; (?:it )?must be|\S+(?: pixels)? is not(?: within)?) ((?:[^,;]|, (?=[0-9]))*))");
  std::smatch found;
  return std::regex_search(description, found, form) ? std::optional(found[1].str()) : std::nullopt;
}

// Sets `least` and `most` from `limits`, if `limits` has exactly one text and this text is a range of numbers, such as
// "1 to 1000" or "above 0 and at most 1".
void ParseLimits(FieldFacts& facts) {
  if (facts.limits.size() != 1) {
    return;
  }
  static const std::regex range(R"((-?[\d.e+]+) to (-?[\d.e+]+)(?: \(\w+\))?)");
  static const std::regex ends(R"((above|at least) (-?[\d.e+-]+) and (below|at most) (-?[\d.e+-]+))");
  const std::string& text = *facts.limits.begin();
  std::smatch found;
  const auto number = [&found](size_t group) {
    double value = 0;
    EXPECT_TRUE(absl::SimpleAtod(found[group].str(), &value)) << found[0];
    return value;
  };
  if (std::regex_match(text, found, range)) {
    facts.least = number(1);
    facts.most = number(2);
  } else if (std::regex_match(text, found, ends)) {
    facts.least_is_open = found[1] == "above";
    facts.least = number(2);
    facts.most_is_open = found[3] == "below";
    facts.most = number(4);
  }
}

// Visits all messages of one spec, and records how admission treats their fields.
class SpecWalk {
 public:
  SpecWalk(const v1::JobSpec& given, std::map<std::string, FieldFacts>* facts) : given_(given), facts_(*facts) {
    auto admitted = AdmitSpec(given);
    EXPECT_TRUE(admitted.ok()) << admitted.status() << "\n" << given.ShortDebugString();
    is_admitted_ = admitted.ok();
    if (is_admitted_) {
      admitted_ = *std::move(admitted);
    }
  }

  void Run() {
    if (!is_admitted_) {
      return;
    }
    Visit([](v1::JobSpec* root) { return root; }, "");
  }

 private:
  void Visit(const Locate& locate, const std::string& path) {
    v1::JobSpec given = given_, admitted = admitted_;
    const Message& message = *locate(&given);
    const Message& filled = *locate(&admitted);
    const Descriptor& type = *message.GetDescriptor();
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      const std::string below = absl::StrCat(path, path.empty() ? "" : ".", NameInJobFile(field));
      FieldFacts& facts = facts_[field.full_name()];
      const bool is_given = ValueOf(message, field).has_value();
      if (const auto value = ValueOf(filled, field); value.has_value() && !is_given) {
        facts.defaults.insert(*value);
      }
      facts.accepts_zero = facts.accepts_zero || AcceptsZero(field, below, locate);
      // Setting this field would clear the member of its oneof that is set.
      const bool is_another =
          field.real_containing_oneof() != nullptr && !message.GetReflection()->HasField(message, &field);
      if (IsNumber(field) && !is_another) {
        AddLimits(field, below, locate, facts);
      }
      if (field.message_type() != nullptr && !field.is_map()) {
        VisitChild(field, below, locate, message);
      }
    }
  }

  bool AcceptsZero(const FieldDescriptor& field, const std::string& path, const Locate& locate) {
    if (field.has_presence() || field.is_map()) {
      return false;
    }
    v1::JobSpec zero = given_;
    Message* const message = locate(&zero);
    message->GetReflection()->ClearField(message, &field);
    const std::vector<FieldViolation> violations = ViolationsOf(AdmitSpec(zero).status());
    return std::none_of(violations.begin(), violations.end(),
                        [&path](const FieldViolation& violation) { return violation.field == path; });
  }

  void VisitChild(const FieldDescriptor& field, const std::string& path, const Locate& locate, const Message& message) {
    const Reflection& reflection = *message.GetReflection();
    if (field.is_repeated() ? reflection.FieldSize(message, &field) == 0 : !reflection.HasField(message, &field)) {
      return;
    }
    const auto child = [&locate, &field](v1::JobSpec* root) {
      Message* const parent = locate(root);
      const Reflection& of = *parent->GetReflection();
      return field.is_repeated() ? of.MutableRepeatedMessage(parent, &field, 0) : of.MutableMessage(parent, &field);
    };
    Visit(child, field.is_repeated() ? path + "[0]" : path);
  }

  void AddLimits(const FieldDescriptor& field, const std::string& path, const Locate& locate, FieldFacts& facts) {
    for (const bool is_largest : {false, true}) {
      v1::JobSpec extreme = given_;
      SetExtreme(locate(&extreme), field, is_largest);
      for (const FieldViolation& violation : ViolationsOf(AdmitSpec(extreme).status())) {
        const bool is_element = field.is_repeated() && absl::StartsWith(violation.field, path + "[");
        if (violation.field == path || is_element) {
          if (const auto limit = LimitIn(violation.description); limit.has_value()) {
            facts.limits.insert(*limit);
          }
        }
      }
    }
  }

  const v1::JobSpec given_;
  v1::JobSpec admitted_;
  bool is_admitted_ = false;
  std::map<std::string, FieldFacts>& facts_;
};

}  // namespace

ProtoComments::ProtoComments() {
  std::ifstream file(AMPD_SPEC_DESCRIPTORS, std::ios::binary);
  google::protobuf::FileDescriptorSet set;
  EXPECT_TRUE(set.ParseFromIstream(&file)) << AMPD_SPEC_DESCRIPTORS;
  for (const google::protobuf::FileDescriptorProto& one : set.file()) {
    EXPECT_NE(pool_.BuildFile(one), nullptr) << one.name();
  }
}

std::string ProtoComments::Of(const Descriptor& message) const {
  return CommentOf(*pool_.FindMessageTypeByName(message.full_name()));
}
std::string ProtoComments::Of(const FieldDescriptor& field) const {
  return CommentOf(*pool_.FindFieldByName(field.full_name()));
}
std::string ProtoComments::Of(const EnumValueDescriptor& value) const {
  return CommentOf(*pool_.FindEnumValueByName(value.full_name()));
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

std::map<std::string, FieldFacts> FindSpecFacts() {
  // Computed once, because it takes thousands of calls of the admission check.
  static const auto* const known = [] {
    auto* const facts = new std::map<std::string, FieldFacts>;
    for (const v1::JobSpec& spec : AdmissibleSpecs()) {
      SpecWalk(spec, facts).Run();
    }
    for (auto& [name, fact] : *facts) {
      ParseLimits(fact);
    }
    return facts;
  }();
  return *known;
}

}  // namespace ampd::server
