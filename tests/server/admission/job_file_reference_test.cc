// Writes docs/job-file.md and docs/job-file.schema.json, the reference of the job file, from the protos and their
// comments, and from what admission accepts and fills in.

#include <gmock/gmock.h>
#include <google/protobuf/text_format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "server/admission/admission.h"
#include "tests/golden_file.h"
#include "tests/server/admission/admissible_specs.h"
#include "tests/server/admission/spec_facts.h"

namespace ampd::server {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::EnumValueDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::OneofDescriptor;
using nlohmann::ordered_json;

constexpr size_t kColumns = 100;
// Sources in data.train must set this field, but sources in data.eval may take it from data.train. The schema has one
// definition of a source for both, so the schema can't require the field.
constexpr char kUnsetInEval[] = "sequence_length";

constexpr char kIntroduction[] = R"(# The job file

<!-- Made from proto/ampd/v1/job_spec.proto and precision.proto, and from what the server accepts, by
server_admission_test with AMPD_UPDATE_GOLDEN=1. Do not edit. -->

A job file is YAML: it describes one job. `ampctl init` writes a job file for the model and the kind
of data that you choose, with comments that explain its fields. `ampctl job submit -f FILE` submits
the job, and `ampctl job submit -f FILE --dry-run` only checks the file. `--set PATH=VALUE` overrides
one field, for example `--set train.steps=500`. The server checks every field before it accepts a
job, and reports all mistakes at once.

Each section below is one part of the file, with its path as the title. A field that must be set is
marked as required. *Default* is what the server fills in for a field that is not set; where it
depends on other fields, the text says how. `ampctl job show JOB -o yaml` prints a job's spec with
every default filled in.

* Sizes in bytes are numbers, or numbers with a unit: `4GiB`, `512MiB`.
* Durations have a unit: `90s`, `15m`, `12h`, `7d`.
* Paths of data and weights are `<data root>/<path>`: the name of a folder that the worker was
  started with (`--data-root`), and a path below it.
* Of the fields of a section that say "set only one of these", set one: `model: {resnet: {depth: 18}}`.

[job-file.schema.json](job-file.schema.json) has the contents of this page as a JSON schema. Editors
with a YAML language server check and complete a job file that begins with this line:

    # yaml-language-server: $schema=job-file.schema.json
)";

bool IsSection(const FieldDescriptor& field) {
  return field.message_type() != nullptr && !field.is_map() &&
         field.message_type()->full_name() != "google.protobuf.Duration";
}

std::string NameOf(const FieldDescriptor& field) { return field.name() == "fixed" ? "static" : field.name(); }

std::string Capitalised(std::string text) {
  if (!text.empty() && text.front() >= 'a' && text.front() <= 'z') {
    text.front() = static_cast<char>(text.front() - 'a' + 'A');
  }
  return text;
}

// The values of an enum that a job file may name: all but the one that stands for an unset field.
std::vector<const EnumValueDescriptor*> ValuesOf(const EnumDescriptor& type) {
  std::vector<const EnumValueDescriptor*> values;
  for (int i = 0; i < type.value_count(); ++i) {
    if (!absl::EndsWith(type.value(i)->name(), "_UNSPECIFIED")) {
      values.push_back(type.value(i));
    }
  }
  return values;
}

// The messages of a job file, each with every path at which it occurs.
class Sections {
 public:
  Sections() { Visit(*v1::JobSpec::descriptor(), ""); }

  const std::vector<const Descriptor*>& in_order() const { return in_order_; }
  const std::vector<std::string>& paths(const Descriptor& type) const { return paths_.at(&type); }

  // Replaces the proto names of messages and fields by their paths in the job file, which users know.
  std::string WithPaths(std::string text) const {
    for (const auto& [type, paths] : paths_) {
      const std::string& path = paths.front();
      if (path.empty() || !absl::StrContains(text, type->name())) {
        continue;
      }
      text =
          std::regex_replace(text, std::regex("\\b" + type->name() + R"(((?:\.[a-z0-9_]+)*)\b)"), "`" + path + "$1`");
    }
    return text;
  }

 private:
  void Visit(const Descriptor& type, const std::string& path) {
    std::vector<std::string>& paths = paths_[&type];
    if (paths.empty()) {
      in_order_.push_back(&type);
    }
    paths.push_back(path);
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      if (IsSection(field)) {
        Visit(*field.message_type(),
              absl::StrCat(path, path.empty() ? "" : ".", NameOf(field), field.is_repeated() ? "[]" : ""));
      }
    }
  }

  std::vector<const Descriptor*> in_order_;
  std::map<const Descriptor*, std::vector<std::string>> paths_;
};

// Breaks a text into lines. The first line begins with `first`, and the others are indented by the length of `first`.
std::string Wrapped(const std::string& text, const std::string& first) {
  const std::string indent(first.size(), ' ');
  std::string wrapped, line = first;
  bool is_empty = true;
  for (const absl::string_view word : absl::StrSplit(text, ' ', absl::SkipEmpty())) {
    if (!is_empty && line.size() + 1 + word.size() > kColumns) {
      absl::StrAppend(&wrapped, line, "\n");
      line = indent;
      is_empty = true;
    }
    absl::StrAppend(&line, is_empty ? "" : " ", word);
    is_empty = false;
  }
  return absl::StrCat(wrapped, line, "\n");
}

std::string Paragraphs(const std::string& text, const std::string& first) {
  std::string wrapped;
  for (const absl::string_view paragraph : absl::StrSplit(text, "\n\n")) {
    const bool is_first = wrapped.empty();
    absl::StrAppend(&wrapped, is_first ? "" : "\n",
                    Wrapped(std::string(paragraph), is_first ? first : std::string(first.size(), ' ')));
  }
  return wrapped;
}

std::string TypeText(const FieldDescriptor& field) {
  if (field.is_map()) {
    return "texts by name";
  }
  std::string type;
  if (IsSection(field)) {
    type = "section";
  } else if (field.message_type() != nullptr) {
    type = "duration";
  } else if (field.enum_type() != nullptr) {
    type = "choice";
  } else {
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        type = "true or false";
        break;
      case FieldDescriptor::CPPTYPE_STRING:
        type = "text";
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        type = "number";
        break;
      default:
        type = absl::EndsWith(field.name(), "_bytes") ? "size" : "whole number";
    }
  }
  return field.is_repeated() ? "list of " + (type == "choice" ? "choices"
                                             : type == "text" ? "texts"
                                                              : type + "s")
                             : type;
}

class Page {
 public:
  std::string Text() {
    std::string page = kIntroduction;
    for (const Descriptor* type : sections_.in_order()) {
      const auto& paths = sections_.paths(*type);
      const std::string title = paths.front().empty() ? "The job" : "`" + absl::StrJoin(paths, "`, `") + "`";
      absl::StrAppend(&page, "\n## ", title, "\n\n");
      if (const std::string comment = comments_.Of(*type); !comment.empty()) {
        absl::StrAppend(&page, Paragraphs(sections_.WithPaths(comment), ""), "\n");
      }
      for (int i = 0; i < type->field_count(); ++i) {
        page += Entry(*type->field(i));
      }
      if (type->field_count() == 0) {
        page += "This section has no fields: write `{}`.\n";
      }
    }
    return page;
  }

 private:
  std::string Entry(const FieldDescriptor& field) {
    const FieldFacts& facts = facts_[field.full_name()];
    std::vector<std::string> words = {TypeText(field)};
    if (const std::string limits = LimitsText(facts); !limits.empty()) {
      words.push_back(limits);
    }
    if (IsRequired(field)) {
      words.push_back("required");
    } else if (facts.defaults.size() == 1) {
      words.push_back(absl::StrCat("default `", *facts.defaults.begin(), "`"));
    } else if (!facts.defaults.empty()) {
      words.push_back("default depends on other fields");
    }
    if (const OneofDescriptor* const choice = field.real_containing_oneof(); choice != nullptr) {
      words.push_back(choice->field_count() == 2 ? "set this or `" + NameOf(*OtherOf(field)) + "`"
                                                 : "set only one of these");
    }
    std::string comment = WithoutLimits(WithoutDefault(sections_.WithPaths(comments_.Of(field)), facts), facts);
    if (comment.empty() && IsSection(field)) {
      comment = FirstSentence(sections_.WithPaths(comments_.Of(*field.message_type())));
    }
    std::string entry = Paragraphs(absl::StrCat("`", NameOf(field), "` (", absl::StrJoin(words, ", "), ")",
                                                comment.empty() ? "" : ": ", Capitalised(comment)),
                                   "* ");
    if (field.enum_type() != nullptr) {
      for (const EnumValueDescriptor* value : ValuesOf(*field.enum_type())) {
        const std::string meaning = sections_.WithPaths(comments_.Of(*value));
        absl::StrAppend(&entry,
                        Wrapped(absl::StrCat("`", value->name(), "`", meaning.empty() ? "" : ": ", meaning), "  * "));
      }
    }
    return entry;
  }

  // Returns the other field of the oneof. REQUIRES: `field` is in a oneof of two fields.
  static const FieldDescriptor* OtherOf(const FieldDescriptor& field) {
    const OneofDescriptor& choice = *field.real_containing_oneof();
    return choice.field(choice.field(0) == &field ? 1 : 0);
  }

  // A limit that is another field's value is named by that field, without the value that the field has in the spec from
  // which the limit was found: "1 to model.gpt2.n_positions". If a field also has limits that are numbers, only these
  // are returned: the field's comment says for which model another limit holds.
  static std::string LimitsText(const FieldFacts& facts) {
    static const std::regex value_of_example(R"((model\.[a-z0-9_.]+), \d+)");
    const auto names_field = [](const std::string& limit) { return absl::StrContains(limit, "model."); };
    std::set<std::string> limits = facts.limits;
    if (!std::all_of(limits.begin(), limits.end(), names_field)) {
      std::erase_if(limits, names_field);
    }
    const bool are_numbers = std::all_of(limits.begin(), limits.end(), [](const std::string& limit) {
      return limit.find_first_not_of("0123456789 to") == std::string::npos;
    });
    return limits.size() > 1 && are_numbers
               ? "limit depends on other fields"
               : std::regex_replace(InUnits(absl::StrJoin(limits, " or ")), value_of_example, "$1");
  }

  // Replaces a number by its short form in parentheses: returns "0 to 1PiB" for "0 to 1125899906842624 (1PiB)".
  static std::string InUnits(const std::string& limits) {
    const size_t unit = limits.ends_with(')') ? limits.rfind(" (") : std::string::npos;
    if (unit == std::string::npos || unit == 0) {
      return limits;
    }
    const size_t number = limits.rfind(' ', unit - 1) + 1;
    return limits.substr(0, number) + limits.substr(unit + 2, limits.size() - unit - 3);
  }

  // Returns the comment without its statement of the default, because the entry states the default elsewhere.
  static std::string WithoutDefault(std::string comment, const FieldFacts& facts) {
    if (facts.defaults.size() == 1) {
      const std::string& value = *facts.defaults.begin();
      for (const std::string& statement : {"; default " + value + ".", " Default " + value + "."}) {
        comment = absl::StrReplaceAll(comment, {{statement, statement.front() == ';' ? "." : ""}});
      }
      for (const std::string& statement : {"Default " + value + ".", "Default " + value + "; "}) {
        comment = std::string(absl::StripAsciiWhitespace(absl::StripPrefix(comment, statement)));
      }
    }
    return comment;
  }

  // Returns the comment without the limits that the entry's heading already has.
  static std::string WithoutLimits(const std::string& comment, const FieldFacts& facts) {
    const std::string limits = LimitsText(facts);
    if (limits.empty()) {
      return comment;
    }
    return absl::StrReplaceAll(
        comment,
        {{"each " + limits + ", at most", "at most"}, {limits + "; ", ""}, {"; " + limits, ""}, {", " + limits, ""}});
  }

  static std::string FirstSentence(const std::string& text) {
    const size_t end = text.find(". ");
    return end == std::string::npos ? text : text.substr(0, end + 1);
  }

  const Sections sections_;
  const ProtoComments comments_;
  std::map<std::string, FieldFacts> facts_ = FindSpecFacts();
};

class Schema {
 public:
  std::string Text() {
    ordered_json schema = {{"$schema", "http://json-schema.org/draft-07/schema#"},
                           {"title", "ampd job file"},
                           {"$ref", "#/definitions/JobSpec"}};
    for (const Descriptor* type : sections_.in_order()) {
      schema["definitions"][type->name()] = Section(*type);
    }
    return schema.dump(1) + "\n";
  }

 private:
  ordered_json Section(const Descriptor& type) {
    ordered_json section = {{"type", "object"}, {"additionalProperties", false}};
    if (const std::string comment = comments_.Of(type); !comment.empty()) {
      section["description"] = sections_.WithPaths(comment);
    }
    for (int i = 0; i < type.field_count(); ++i) {
      const FieldDescriptor& field = *type.field(i);
      ordered_json property = Property(field);
      if (const std::string comment = comments_.Of(field); !comment.empty() && !property.contains("$ref")) {
        property["description"] = Capitalised(sections_.WithPaths(comment));
      }
      section["properties"][NameOf(field)] = property;
      if (IsRequired(field) && field.name() != kUnsetInEval) {
        section["required"].push_back(NameOf(field));
      }
    }
    if (type.full_name() == "ampd.v1.JobSpec") {
      // The proto can't say that a field is required unless another one is set.
      section["anyOf"] = {{{"required", {"predict"}}}, {{"required", {"optimizer", "train"}}}};
    }
    for (int i = 0; i < type.real_oneof_decl_count(); ++i) {
      section["allOf"].push_back(AtMostOne(*type.oneof_decl(i)));
    }
    return section;
  }

  static ordered_json AtMostOne(const OneofDescriptor& choice) {
    ordered_json members = ordered_json::array();
    for (int i = 0; i < choice.field_count(); ++i) {
      members.push_back({{"required", {NameOf(*choice.field(i))}}});
    }
    ordered_json alternatives = members;
    alternatives.push_back({{"not", {{"anyOf", members}}}});
    return {{"oneOf", alternatives}};
  }

  ordered_json Property(const FieldDescriptor& field) {
    if (field.is_map()) {
      return {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}};
    }
    const ordered_json value = Value(field);
    return field.is_repeated() ? ordered_json{{"type", "array"}, {"items", value}} : value;
  }

  ordered_json Value(const FieldDescriptor& field) {
    if (IsSection(field)) {
      return {{"$ref", "#/definitions/" + field.message_type()->name()}};
    }
    if (field.message_type() != nullptr) {
      return {{"type", "string"}, {"pattern", "[a-z]$"}};  // A duration.
    }
    if (field.enum_type() != nullptr) {
      ordered_json names = ordered_json::array();
      for (const EnumValueDescriptor* value : ValuesOf(*field.enum_type())) {
        names.push_back(value->name());
      }
      return {{"enum", names}};
    }
    switch (field.cpp_type()) {
      case FieldDescriptor::CPPTYPE_BOOL:
        return {{"type", "boolean"}};
      case FieldDescriptor::CPPTYPE_STRING:
        return {{"type", "string"}};
      case FieldDescriptor::CPPTYPE_DOUBLE:
        return Number("number", field);
      default:
        break;
    }
    const ordered_json number = Number("integer", field);
    return absl::EndsWith(field.name(), "_bytes")
               ? ordered_json{{"anyOf", {number, {{"type", "string"}, {"pattern", "^[0-9.]+ ?[kKMGT]?i?B$"}}}}}
               : number;
  }

  ordered_json Number(const std::string& type, const FieldDescriptor& field) {
    const FieldFacts& facts = facts_[field.full_name()];
    ordered_json number = {{"type", type}};
    const auto put = [&](const std::string& key, double limit) {
      if (type == "integer") {
        number[key] = static_cast<int64_t>(limit);
      } else {
        number[key] = limit;
      }
    };
    if (facts.least.has_value()) {
      put(facts.least_is_open ? "exclusiveMinimum" : "minimum", *facts.least);
      put(facts.most_is_open ? "exclusiveMaximum" : "maximum", *facts.most);
    }
    if (facts.defaults.size() == 1) {
      number["default"] = ordered_json::parse(*facts.defaults.begin(), nullptr, false);
    }
    return number;
  }

  const Sections sections_;
  const ProtoComments comments_;
  std::map<std::string, FieldFacts> facts_ = FindSpecFacts();
};

// Writes client/jobfile/field_limits_table.cc: what ampctl knows of the limits, so that it need not ask a server.
class LimitsTable {
 public:
  std::string Text() {
    std::string text =
        R"(// Made from proto/ampd/v1/job_spec.proto and precision.proto, and from what the server accepts, by
// server_admission_test with AMPD_UPDATE_GOLDEN=1. Do not edit.
#include "client/jobfile/field_limits.h"

namespace ampd::client {
namespace {

constexpr FieldLimits kFieldLimits[] = {
)";
    for (const Descriptor* type : sections_.in_order()) {
      for (int i = 0; i < type->field_count(); ++i) {
        text += Row(*type->field(i));
      }
    }
    return text + R"(};

}  // namespace

std::span<const FieldLimits> AllFieldLimits() { return kFieldLimits; }

}  // namespace ampd::client
)";
  }

 private:
  std::string Row(const FieldDescriptor& field) {
    const FieldFacts& facts = facts_[field.full_name()];
    const bool is_known = facts.limits.size() == 1 && !absl::StrContains(*facts.limits.begin(), "model.");
    const std::string limits = is_known ? *facts.limits.begin() : "";
    const std::string otherwise = facts.defaults.size() == 1 ? *facts.defaults.begin() : "";
    const bool is_unset = IsUnsetIfZero(field, facts);
    if (limits.empty() && !is_unset) {
      return "";
    }
    return absl::StrCat("    {\"", field.full_name(), "\", \"", limits, "\", ", is_unset ? "true" : "false", ", \"",
                        absl::StrReplaceAll(otherwise, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"},\n");
  }

  // Whether admission treats 0, an empty text or an empty list as an unset field, and fills in the default. Returns
  // false for a number field whose limits include 0, because there 0 has a meaning of its own.
  static bool IsUnsetIfZero(const FieldDescriptor& field, const FieldFacts& facts) {
    if (!facts.accepts_zero) {
      return false;
    }
    if (field.is_repeated() || field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      return !facts.defaults.empty();
    }
    const bool excludes_zero = facts.least.has_value() ? *facts.least > 0 || (*facts.least == 0 && facts.least_is_open)
                                                       : HasOnlyNumbersAboveZero(facts.limits);
    return IsNumberField(field) && excludes_zero;
  }

  static bool IsNumberField(const FieldDescriptor& field) {
    return field.cpp_type() == FieldDescriptor::CPPTYPE_INT32 || field.cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
           field.cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
  }

  // Whether the limits are a list such as "18, 34 or 50".
  static bool HasOnlyNumbersAboveZero(const std::set<std::string>& limits) {
    static const std::regex list(R"([1-9]\d*(, [1-9]\d*)*( or [1-9]\d*)?)");
    return limits.size() == 1 && std::regex_match(*limits.begin(), list);
  }

  const Sections sections_;
  std::map<std::string, FieldFacts> facts_ = FindSpecFacts();
};

TEST(JobFileReference, LimitsThatAmpctlKnows_AreThoseOfAdmission) {
  ExpectGolden("client/jobfile/field_limits_table.cc", LimitsTable().Text());
}

TEST(JobFileReference, Page_IsThatOfTheProtosAndOfAdmission) { ExpectGolden("docs/job-file.md", Page().Text()); }

TEST(JobFileReference, Schema_IsThatOfTheProtosAndOfAdmission) {
  ExpectGolden("docs/job-file.schema.json", Schema().Text());
}

TEST(JobFileReference, Facts_AreKnownForEverySection) {
  const auto facts = FindSpecFacts();
  const Sections sections;
  for (const Descriptor* type : sections.in_order()) {
    for (int i = 0; i < type->field_count(); ++i) {
      EXPECT_TRUE(facts.contains(type->field(i)->full_name()))
          << "AdmissibleSpecs() has no spec with a " << type->name();
    }
  }
}

TEST(JobFileReference, Limits_AreThoseOfKnownFields) {
  auto facts = FindSpecFacts();
  const FieldFacts keep = facts["ampd.v1.CheckpointSpec.keep"];
  EXPECT_THAT(keep.defaults, testing::ElementsAre("2"));
  EXPECT_EQ(keep.least, 1);
  EXPECT_EQ(keep.most, 1000);
  const FieldFacts decay = facts["ampd.v1.OptimizerSpec.ema_decay"];
  EXPECT_EQ(decay.least, 0);
  EXPECT_FALSE(decay.least_is_open);
  EXPECT_EQ(decay.most, 1);
  EXPECT_TRUE(decay.most_is_open);
  EXPECT_EQ(facts["ampd.v1.AdamWSpec.learning_rate"].least_is_open, true);
  EXPECT_THAT(facts["ampd.v1.ResnetSpec.num_classes"].defaults, testing::ElementsAre("10", "1000"));
}

TEST(JobFileReference, EveryNumberHasALimit) {
  const auto facts = FindSpecFacts();
  std::vector<std::string> without;
  for (const auto& [name, fact] : facts) {
    const FieldDescriptor* const field = google::protobuf::DescriptorPool::generated_pool()->FindFieldByName(name);
    const bool is_number = field->cpp_type() == FieldDescriptor::CPPTYPE_INT32 ||
                           field->cpp_type() == FieldDescriptor::CPPTYPE_INT64 ||
                           field->cpp_type() == FieldDescriptor::CPPTYPE_DOUBLE;
    const bool is_of_ampd = absl::StartsWith(name, "ampd.");
    if (is_of_ampd && is_number && fact.limits.empty()) {
      without.push_back(name);
    }
  }
  EXPECT_THAT(without, testing::ElementsAre("ampd.v1.SyntheticSource.shape")) << "its product is limited";
}

}  // namespace
}  // namespace ampd::server
