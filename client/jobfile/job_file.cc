#include "client/jobfile/job_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/text.h"
#include "base/yaml/foreign_text.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_override.h"
#include "client/jobfile/spec_scalar.h"
#include "client/jobfile/unknown_field.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr char kDuration[] = "google.protobuf.Duration";
constexpr char kNameOption[] = "--name";

// The path of a field in two forms: `shown` has the names that the user types, and is for messages; `proto` has the
// names of the proto's fields. Both are keys of JobFile::marks.
struct FieldPath {
  std::string shown;
  std::string proto;

  FieldPath Child(const FieldDescriptor& field) const {
    const std::string dot = proto.empty() ? "" : ".";
    return {shown + dot + FieldName(field), proto + dot + field.name()};
  }
  FieldPath Item(size_t index) const {
    const std::string suffix = absl::StrCat("[", index, "]");
    return {shown + suffix, proto + suffix};
  }
};

// Fills messages from YAML trees by reflection. After a problem it records the problem and continues.
class SpecFiller {
 public:
  // `root` is the whole tree, for suggestions.
  SpecFiller(JobFile* file, const YamlNode& root) : file_(file), root_(root) {}

  void Fill(const YamlNode& node, const FieldPath& path, Message* message) {
    const Descriptor& type = *message->GetDescriptor();
    if (node.kind == YamlNode::Kind::kNull) {
      // "precision:" without a value is an error. Other messages may be empty: "eval:" is an EvalSpec without fields.
      if (&type == v1::PrecisionPolicy::descriptor()) {
        Report(node.mark, path.shown,
               absl::StrCat(path.shown, " has no value; write {preset: fp32}, or remove the field"));
      }
      return;
    }
    if (node.kind != YamlNode::Kind::kMap) {
      ReportNoMapping(node, path, type);
      return;
    }
    std::map<const OneofDescriptor*, std::string> chosen;
    std::map<const FieldDescriptor*, std::string> seen;
    for (const YamlEntry& entry : node.entries) {
      const FieldDescriptor* field = FindField(type, entry.key);
      if (field == nullptr) {
        ReportUnknown(entry, path, type);
      } else if (const auto [first, is_new] = seen.emplace(field, entry.key); !is_new) {
        Report(entry.mark, path.Child(*field).shown,
               absl::StrCat("'", entry.key, "' and '", first->second, "' are one field; write it once"));
      } else if (ChooseInOneof(entry, path, *field, &chosen)) {
        const FieldPath child = path.Child(*field);
        SetMark(child, entry.mark);
        FillField(entry.value, child, *field, message);
      }
    }
  }

 private:
  static std::string Shown(const FieldPath& path) { return path.shown.empty() ? "the job file" : path.shown; }

  // Records the place under two forms of the path: that of the message, and the one that users write. The server's
  // errors use the latter.
  void SetMark(const FieldPath& path, const SourceMark& mark) {
    file_->marks[path.proto] = mark;
    file_->marks[path.shown] = mark;
  }

  void Report(SourceMark mark, std::string field, std::string message, std::string nearest = "",
              std::vector<std::string> allowed = {}) {
    file_->problems.push_back(
        {std::move(mark), std::move(field), std::move(message), std::move(nearest), std::move(allowed)});
  }

  static std::string QuotedText(const std::string& text) {
    return absl::StrCat("'", Shortened(text, kMaxShownText), "'");
  }

  static bool IsOverride(const SourceMark& mark) { return mark.source.starts_with(kSetOption); }

  // Reports a value such as "null" in an override.
  void ReportNoValue(const YamlNode& node, const FieldPath& path) {
    Report(node.mark, path.shown,
           absl::StrCat(path.shown, " is ", QuotedText(node.text),
                        ", which means no value; --set cannot remove a field, so remove it in the file"));
  }

  // Reports a value where a mapping must be.
  void ReportNoMapping(const YamlNode& node, const FieldPath& path, const Descriptor& type) {
    const bool is_scalar = node.kind == YamlNode::Kind::kScalar;
    constexpr std::string_view kNoValues[] = {"", "null", "Null", "NULL", "~", "None", "none"};
    if (IsOverride(node.mark) && is_scalar &&
        std::find(std::begin(kNoValues), std::end(kNoValues), node.text) != std::end(kNoValues)) {
      Report(node.mark, path.shown,
             absl::StrCat(Shown(path), " is a mapping of fields, which --set cannot remove; remove it in the file"));
      return;
    }
    Report(
        node.mark, path.shown,
        absl::StrCat(Shown(path), " must be a mapping of fields, not ", is_scalar ? QuotedText(node.text) : "a list"),
        is_scalar ? MeantMapping(node.text, {path.shown, IsOverride(node.mark)}, type) : "", FieldNames(type));
  }

  void ReportUnknown(const YamlEntry& entry, const FieldPath& path, const Descriptor& type) {
    UnknownFieldAnswer answer = ExplainUnknownField({.key = entry.key,
                                                     .section = path.shown,
                                                     .type = &type,
                                                     .whole = v1::JobSpec::descriptor(),
                                                     .root = &root_,
                                                     .is_override = entry.mark.line == 0,
                                                     .value = &entry.value});
    Report(entry.mark, path.shown, std::move(answer.message), std::move(answer.nearest), std::move(answer.allowed));
  }

  bool ChooseInOneof(const YamlEntry& entry, const FieldPath& path, const FieldDescriptor& field,
                     std::map<const OneofDescriptor*, std::string>* chosen) {
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (oneof == nullptr) {
      return true;
    }
    const auto [other, first] = chosen->emplace(oneof, entry.key);
    if (!first) {
      const FieldPath child = path.Child(field);
      Report(entry.mark, child.shown,
             absl::StrCat(child.shown, " cannot be combined with '", other->second, "': only one of them may be set"));
    }
    return first;
  }

  void FillField(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    if (field.is_map()) {
      FillMap(node, path, field, message);
    } else if (!field.is_repeated()) {
      FillOne(node, path, field, message);
    } else if (node.kind != YamlNode::Kind::kSequence) {
      ReportNoList(node, path, field);
    } else if (node.items.empty() && IsUnsetIfZero(field)) {
      ReportZero(node, path, field, "is an empty list");
    } else {
      for (size_t i = 0; i < node.items.size(); ++i) {
        SetMark(path.Item(i), node.items[i].mark);
        FillOne(node.items[i], path.Item(i), field, message);
      }
    }
  }

  // Whether the value was meant as a list whose items lack the space after their '-': YAML reads the lines "-8" and
  // "-16" below a key as the one text "-8 -16".
  bool LacksSpaceAfterDash(const YamlNode& node, const FieldPath& path) const {
    const auto key = file_->marks.find(path.shown);
    const bool is_below = key != file_->marks.end() && node.mark.line > key->second.line;
    const bool is_of_dash = node.kind == YamlNode::Kind::kMap && !node.entries.empty()
                                ? node.entries.front().key.starts_with('-')
                                : node.kind == YamlNode::Kind::kScalar && !node.quoted && node.text.starts_with('-');
    return is_below && is_of_dash;
  }

  void ReportNoList(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field) {
    const std::string list = absl::StrCat(" a list: [", TypeWords(field), ", ...]");
    const bool is_scalar = node.kind == YamlNode::Kind::kScalar;
    if (MeansNoValue(node, field)) {
      ReportNoValue(node, path);
      return;
    }
    const std::string found = is_scalar ? QuotedText(node.text) : "a mapping";
    const bool lacks_space = LacksSpaceAfterDash(node, path);
    Report(node.mark, path.shown,
           node.kind == YamlNode::Kind::kNull
               ? absl::StrCat(path.shown, " has no value; it must be", list)
               : absl::StrCat(path.shown, " must be", list, ", not ", found,
                              lacks_space ? "; the '-' of an item needs a space after it" : ""),
           is_scalar && !lacks_space ? MeantList(node.text, {path.shown, IsOverride(node.mark)}, field) : "");
  }

  static bool IsUnsetIfZero(const FieldDescriptor& field) {
    const FieldLimits* const limits = LimitsOf(field);
    return limits != nullptr && limits->is_unset_if_zero;
  }

  // Reports a value that the server would take for an unset field. REQUIRES: IsUnsetIfZero(field).
  void ReportZero(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, const std::string& found) {
    const FieldLimits& limits = *LimitsOf(field);
    const std::string allowed = limits.limits;
    const std::string otherwise = limits.default_value;
    Report(node.mark, path.shown,
           absl::StrCat(path.shown, " ", found, field.is_repeated() || allowed.empty() ? "" : "; must be " + allowed,
                        "; leave the field out for the default", otherwise.empty() ? "" : ", " + otherwise));
  }

  void FillMap(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    if (MeansNoValue(node, field)) {
      ReportNoValue(node, path);
      return;
    }
    if (node.kind != YamlNode::Kind::kMap) {
      const bool is_pair = node.kind == YamlNode::Kind::kScalar && absl::StrContains(node.text, "=");
      const bool is_override = IsOverride(node.mark);
      const std::string found = node.kind == YamlNode::Kind::kScalar     ? QuotedText(node.text)
                                : node.kind == YamlNode::Kind::kSequence ? "a list"
                                                                         : "empty";
      Report(node.mark, path.shown, absl::StrCat(path.shown, " must be a mapping of names to text, not ", found),
             !is_pair ? ""
             : is_override
                 ? absl::StrCat(path.shown, ".", Shortened(node.text, kMaxShownText))
                 : absl::StrCat("{", absl::StrReplaceAll(Shortened(node.text, kMaxShownText), {{"=", ": "}}), "}"));
      return;
    }
    const Descriptor& type = *field.message_type();
    for (const YamlEntry& entry : node.entries) {
      const FieldPath item{path.shown + "." + entry.key, path.proto + "." + entry.key};
      SetMark(item, entry.mark);
      Message* pair = message->GetReflection()->AddMessage(message, &field);
      pair->GetReflection()->SetString(pair, type.map_key(), entry.key);
      FillOne(entry.value, item, *type.map_value(), pair);
    }
  }

  void FillOne(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && field.message_type()->full_name() != kDuration) {
      const auto* reflection = message->GetReflection();
      Fill(node, path,
           field.is_repeated() ? reflection->AddMessage(message, &field) : reflection->MutableMessage(message, &field));
      return;
    }
    if (node.kind == YamlNode::Kind::kNull && !node.text.empty() &&
        field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      Report(node.mark, path.shown,
             absl::StrCat(path.shown, " is ", QuotedText(node.text),
                          ", which means no value in YAML; put the text in quotes, or remove the field"));
    } else if (node.kind == YamlNode::Kind::kNull) {
      Report(node.mark, path.shown, absl::StrCat(path.shown, " has no value; it must be ", TypeWords(field)));
    } else if (node.kind != YamlNode::Kind::kScalar) {
      Report(node.mark, path.shown,
             absl::StrCat(path.shown, " must be ", TypeWords(field), ", not a ",
                          node.kind == YamlNode::Kind::kMap ? "mapping" : "list"));
    } else if (MeansNoValue(node, field)) {
      ReportNoValue(node, path);
    } else if (const auto refusal = SetScalar(node.text, field, message)) {
      ReportRefusal(node, path, field, *refusal);
    } else if (!field.is_repeated() && IsUnsetIfZero(field) && !message->GetReflection()->HasField(*message, &field)) {
      ReportZero(node, path, field, node.text.empty() ? "is empty" : absl::StrCat("is ", node.text));
    } else {
      KeepText(node, path, field);
    }
  }

  void ReportRefusal(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field,
                     const ScalarRefusal& refusal) {
    const std::string bare = IsOverride(node.mark) ? WithoutQuotes(node.text, field) : "";
    const std::string items = field.is_repeated() ? MeantItems(node.text, field) : "";
    Report(node.mark, path.shown,
           absl::StrCat(path.shown, " ", refusal.message, items.empty() ? "" : "; a ',' stands between two items"),
           !bare.empty()    ? bare
           : !items.empty() ? items
                            : MeantScalar(node, refusal),
           refusal.allowed);
  }

  // Keeps the text of a number or a duration for the messages of the server, which knows only its value. If the text of
  // an override has quotes around it, adds a note that they are a part of the value. The user may have meant them for
  // YAML.
  void KeepText(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field) {
    if (field.cpp_type() != FieldDescriptor::CPPTYPE_STRING) {
      file_->texts[path.proto] = node.text;
      file_->texts[path.shown] = node.text;
    } else if (IsOverride(node.mark) && IsQuoted(node.text) && node.mark.source == kSetOption + path.shown) {
      file_->notes.push_back(absl::StrCat(node.mark.source, ": the quotes are a part of the value ",
                                          Shortened(node.text, kMaxShownText), "; without them: ", node.mark.source,
                                          "=", Shortened(node.text.substr(1, node.text.size() - 2), kMaxShownText)));
    }
  }

  JobFile* const file_;
  const YamlNode& root_;
};

// Reports a problem if an override also sets the field `name`. REQUIRES: the option --name was given.
void CheckNameIsGivenOnce(const YamlNode& root, std::vector<Problem>* problems) {
  for (const YamlEntry& entry : root.entries) {
    if (entry.key == "name" && entry.mark.source.starts_with(kSetOption)) {
      problems->push_back({{kNameOption, 0, 0}, "name", "sets again what --set name sets; give one of them"});
    }
  }
}

// Sets the field `name` of the tree's root, in place of the file's.
void SetName(const std::string& name, YamlNode* root) {
  if (root->kind != YamlNode::Kind::kMap && root->kind != YamlNode::Kind::kNull) {
    return;  // The reader refuses the tree.
  }
  root->kind = YamlNode::Kind::kMap;
  const SourceMark mark{kNameOption, 0, 0};
  std::erase_if(root->entries, [](const YamlEntry& entry) { return entry.key == "name"; });
  root->entries.insert(root->entries.begin(), {"name", mark, {YamlNode::Kind::kScalar, mark, name, true, {}, {}}});
}

// If the tree is the output of `ampctl job show -o json` or `-o yaml`, which has an id and a state besides the spec,
// returns the entry "spec"; otherwise null.
const YamlEntry* SpecOfShownJob(const YamlNode& root) {
  const auto named = [&root](const char* name) {
    return std::find_if(root.entries.begin(), root.entries.end(),
                        [name](const YamlEntry& entry) { return entry.key == name; });
  };
  const auto spec = named("spec");
  const bool is_job = spec != root.entries.end() && spec->value.kind == YamlNode::Kind::kMap &&
                      named("id") != root.entries.end() && named("state") != root.entries.end();
  return is_job ? &*spec : nullptr;
}

// Does the work of ReadJobFile, except that it does not look for characters that only look like ASCII.
JobFile ReadText(std::string_view text, const std::string& source, const std::vector<std::string>& overrides,
                 const std::string& name) {
  JobFile file;
  std::optional<YamlNode> root = ParseYaml(text, source, kJobFileKind, &file.problems);
  if (!root.has_value()) {
    return file;
  }
  if (root->kind == YamlNode::Kind::kScalar) {
    if (auto foreign = FindOtherLanguage(text, source, kJobFileKind); foreign.has_value()) {
      file.problems.push_back(*std::move(foreign));
      return file;
    }
  }
  if (const YamlEntry* const spec = SpecOfShownJob(*root); spec != nullptr) {
    file.problems.push_back({spec->mark, "", "this is the output of job show; only its \"spec\" is a job file"});
    return file;
  }
  for (const std::string& assignment : overrides) {
    ApplyOverride(assignment, *v1::JobSpec::descriptor(), &*root, {&file.problems, &file.replaced, &file.notes});
  }
  if (!name.empty()) {
    CheckNameIsGivenOnce(*root, &file.problems);
    SetName(name, &*root);
  }
  if (root->kind == YamlNode::Kind::kNull) {
    file.problems.push_back({{source, 0, 0}, "", absl::StrCat("the file has no fields", kJobFileKind.about_empty)});
    return file;
  }
  SpecFiller(&file, *root).Fill(*root, {}, &file.spec);
  return file;
}

}  // namespace

JobFile ReadJobFile(std::string_view text, const std::string& source, const std::vector<std::string>& overrides,
                    const std::string& name) {
  JobFile file = ReadText(text, source, overrides, name);
  file.look_alikes[source] = FindLookAlikes(text);
  for (const std::string& assignment : overrides) {
    for (LookAlike& one : FindLookAlikes(assignment)) {
      one.line = 0;
      one.column = 0;
      file.look_alikes[PlaceOfOverride(assignment)].push_back(std::move(one));
    }
  }
  for (Problem& problem : file.problems) {
    ExplainLookAlikeIn(file.look_alikes, &problem);
  }
  return file;
}

}  // namespace ampd::client
