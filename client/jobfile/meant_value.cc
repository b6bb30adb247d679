#include "client/jobfile/meant_value.h"

#include <google/protobuf/message.h>

#include <algorithm>
#include <memory>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/precision.pb.h"
#include "base/text.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/foreign_names.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::MessageFactory;

bool IsMessage(const FieldDescriptor& field) { return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE; }

// Whether the text is a valid value of the field.
bool IsAccepted(const std::string& text, const FieldDescriptor& field) {
  const Message* const prototype = MessageFactory::generated_factory()->GetPrototype(field.containing_type());
  const std::unique_ptr<Message> scratch(prototype->New());
  return !SetScalar(text, field, scratch.get()).has_value();
}

// Returns the mapping that was probably meant by a number: "{steps: 3}" for "train: 3". Empty if there is none.
std::string MeantByNumber(const std::string& text, const Descriptor& type) {
  const auto takes_number = [&text](const FieldDescriptor& field) {
    const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    return !IsMessage(field) && !field.is_repeated() && !is_text && IsAccepted(text, field);
  };
  double number = 0;
  if (!absl::SimpleAtod(text, &number) || type.field_count() == 0) {
    return "";
  }
  if (takes_number(*type.field(0))) {
    return absl::StrCat("{", FieldName(*type.field(0)), ": ", text, "}");
  }
  std::vector<std::string> meant;
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& choice = *type.field(i);
    const bool has_one_field = choice.real_containing_oneof() != nullptr && IsMessage(choice) &&
                               choice.message_type()->field_count() == 1 &&
                               takes_number(*choice.message_type()->field(0));
    if (has_one_field) {
      meant.push_back(
          absl::StrCat("{", FieldName(choice), ": {", FieldName(*choice.message_type()->field(0)), ": ", text, "}}"));
    }
  }
  return meant.size() == 1 ? meant.front() : "";
}

// Returns the field of `type` that a text such as "steps: 3", "steps=3" or "steps 3" sets, and the value; the field is
// null if there is none.
std::pair<const FieldDescriptor*, std::string> AssignmentIn(const std::string& text, const Descriptor& type) {
  const size_t end = text.find_first_of(": =");
  if (end == std::string::npos) {
    return {nullptr, ""};
  }
  const size_t value = text.find_first_not_of(" :=", end);
  return {FindField(type, text.substr(0, end)), value == std::string::npos ? "" : text.substr(value)};
}

// Returns where in the text a comment was probably meant to begin; npos if nowhere.
size_t CommentAt(const std::string& text) { return std::min(text.find('#'), text.find(" //")); }

// Returns the path from the top to a field that an assignment beside `beside` names: "train.seed" for "seed" beside
// "train.steps". Empty if there is no such field.
std::string MeantPath(const std::string& path, const std::string& beside) {
  const Descriptor& whole = *v1::JobSpec::descriptor();
  const size_t dot = beside.rfind('.');
  const std::string sibling = dot == std::string::npos ? path : absl::StrCat(beside.substr(0, dot), ".", path);
  for (const std::string& candidate : {path, sibling}) {
    const std::vector<std::string> like = PathsLike(whole, candidate);
    if (std::find(like.begin(), like.end(), candidate) != like.end() || candidate.starts_with("labels.")) {
      return candidate;
    }
  }
  const std::vector<std::string> found = PathsTo(whole, path, 2);
  return found.size() == 1 ? found.front() : "";
}

}  // namespace

std::string MeantMapping(const std::string& text, const RefusedField& refused, const Descriptor& type) {
  if (const auto [field, value] = AssignmentIn(text, type); field != nullptr && !value.empty()) {
    const std::string shown = Shortened(value, kMaxShownText);
    return refused.is_override ? absl::StrCat(refused.path, ".", FieldName(*field), "=", shown)
                               : absl::StrCat(FieldName(*field), ": ", shown);
  }
  if (const FieldDescriptor* const field = FindField(type, absl::AsciiStrToLower(text)); field != nullptr) {
    const bool is_mapping = IsMessage(*field) && !field->is_repeated();
    return absl::StrCat("{", FieldName(*field), is_mapping ? ": {}}" : ": ...}");
  }
  if (text.empty() || refused.path.empty()) {
    return "";
  }
  if (absl::EqualsIgnoreCase(text, "true") || absl::EqualsIgnoreCase(text, "yes") ||
      absl::EqualsIgnoreCase(text, "on")) {
    return MeantBySwitch(type);
  }
  if (type.field(0)->cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    const std::string word = NearestWord(text, EnumNames(*type.field(0)->enum_type()));
    return word.empty() ? "" : absl::StrCat("{", FieldName(*type.field(0)), ": ", word, "}");
  }
  if (type.field(0)->cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
    return MeantByNumber(text, type);
  }
  const std::string preset = &type == v1::PrecisionPolicy::descriptor() ? NearestPreset(text) : "";
  return absl::StrCat("{", FieldName(*type.field(0)), ": ", preset.empty() ? Shortened(text, kMaxShownText) : preset,
                      "}");
}

std::string MeantBySwitch(const Descriptor& type) {
  const auto lacks_default = [](const FieldDescriptor& field) {
    const FieldLimits* const limits = LimitsOf(field);
    return limits != nullptr && limits->is_unset_if_zero && limits->default_value[0] == '\0';
  };
  bool may_be_empty = &type != v1::PrecisionPolicy::descriptor() && type.real_oneof_decl_count() == 0;
  for (int i = 0; i < type.field_count(); ++i) {
    may_be_empty = may_be_empty && !IsRequired(*type.field(i)) && !lacks_default(*type.field(i));
  }
  return may_be_empty ? "{}" : "";
}

std::string MeantPairs(const YamlNode& node, const RefusedField& refused) {
  std::vector<std::string> pairs;
  const std::string text = node.kind == YamlNode::Kind::kScalar ? node.text : "";
  for (const absl::string_view part : absl::StrSplit(text, absl::ByAnyChar(",; "), absl::SkipEmpty())) {
    const size_t equals = part.find('=');
    if (equals == absl::string_view::npos || equals == 0) {
      return "";
    }
    pairs.push_back(absl::StrCat(part.substr(0, equals), ": ", part.substr(equals + 1)));
  }
  return pairs.empty() ? ""
         : pairs.size() == 1 && refused.is_override
             ? absl::StrCat(refused.path, ".", Shortened(text, kMaxShownText))
             : absl::StrCat("{", Shortened(absl::StrJoin(pairs, ", "), 2 * kMaxShownText), "}");
}

std::string MeantItems(const std::string& text, const FieldDescriptor& field) {
  const bool is_tuple = text.size() > 1 && text.front() == '(' && text.back() == ')';
  const bool is_size = !text.empty() && text.find_first_not_of("0123456789x") == std::string::npos;  // "28x28"
  const std::vector<std::string> words = absl::StrSplit(is_tuple ? text.substr(1, text.size() - 2) : text,
                                                        absl::ByAnyChar(is_size ? "x" : " ,;"), absl::SkipEmpty());
  const bool is_list =
      words.size() > (is_tuple ? 0 : 1) && !IsMessage(field) && text.find_first_of("[]{}\"'") == std::string::npos &&
      std::all_of(words.begin(), words.end(), [&field](const std::string& word) { return IsAccepted(word, field); });
  return is_list ? Shortened(absl::StrJoin(words, ", "), kMaxShownText) : "";
}

std::string MeantList(const std::string& text, const RefusedField& refused, const FieldDescriptor& field) {
  std::string items = MeantItems(text, field);
  if (items.empty() && IsMessage(field)) {
    items = MeantMapping(text, {refused.path, /*is_override=*/false}, *field.message_type());
    items = items.starts_with('{') ? items : "";
  } else if (items.empty() && IsAccepted(text, field)) {
    items = Shortened(text, kMaxShownText);
  }
  return items.empty() ? "" : absl::StrCat("[", items, "]");
}

std::string MeantScalar(const YamlNode& node, const RefusedField& refused, const ScalarRefusal& refusal,
                        const FieldDescriptor& field) {
  if (!refused.is_override) {
    // A comment begins with " #". "//" begins none.
    const std::string value(absl::StripAsciiWhitespace(node.text.substr(0, CommentAt(node.text))));
    return refusal.nearest.empty() && value != node.text && IsAccepted(value, field) ? value : refusal.nearest;
  }
  if (const std::string value = node.text.substr(std::min(node.text.find_first_not_of("=: "), node.text.size()));
      value != node.text && IsAccepted(value, field)) {
    return Shortened(value, kMaxShownText);  // "train.steps==3"
  }
  const size_t end = node.text.find_first_of(",; ");
  const std::vector<std::string> more = absl::StrSplit(end == std::string::npos ? "" : node.text.substr(end + 1),
                                                       absl::ByAnyChar(",; "), absl::SkipWhitespace());
  std::string line = absl::StrCat(kSetOption, refused.path, "=", node.text.substr(0, end));
  for (const std::string& assignment : more) {
    const size_t equals = assignment.find('=');
    const std::string path = equals == std::string::npos ? "" : MeantPath(assignment.substr(0, equals), refused.path);
    if (path.empty()) {
      return refusal.nearest;
    }
    absl::StrAppend(&line, " ", kSetOption, path, assignment.substr(equals));
  }
  return more.empty() ? refusal.nearest : Shortened(line, 2 * kMaxShownText);
}

std::string WhyNoValue(const std::string& text, bool is_override) {
  if (absl::StartsWith(text, "$") || absl::StrContains(text, "${") || absl::StrContains(text, "%(")) {
    return is_override ? "; a job file has no variables, so write the value"
                       : "; a job file has no variables, so write the value, here or with --set";
  }
  const size_t comment = is_override ? std::string::npos : CommentAt(text);
  return comment == std::string::npos ? ""
         : text[comment] == '#'       ? "; a '#' begins a comment only after a space"
                                      : "; '//' begins no comment; YAML has # comments";
}

bool IsQuoted(const std::string& text) {
  return text.size() > 2 && text.front() == text.back() && (text.front() == '"' || text.front() == '\'');
}

std::string WithoutQuotes(const std::string& text, const FieldDescriptor& field) {
  const std::string bare = IsQuoted(text) ? text.substr(1, text.size() - 2) : "";
  return !bare.empty() && IsAccepted(bare, field) ? Shortened(bare, kMaxShownText) : "";
}

bool MeansNoValue(const YamlNode& node, const FieldDescriptor& field) {
  const std::string& text = node.text;
  const bool is_null = text == "null" || text == "Null" || text == "NULL" || text == "~";
  // In a field for a text or a choice, Python's "None" may be meant as a value: an ordinary text, or the choice "none".
  const bool may_be_word =
      field.cpp_type() == FieldDescriptor::CPPTYPE_STRING || field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM;
  return node.mark.source.starts_with(kSetOption) && node.kind == YamlNode::Kind::kScalar &&
         (is_null || (text == "None" && !may_be_word));
}

}  // namespace ampd::client
