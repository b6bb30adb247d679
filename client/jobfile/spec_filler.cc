#include "client/jobfile/spec_filler.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"
#include "client/jobfile/unknown_field.h"
#include "client/render/shell_word.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr char kDuration[] = "google.protobuf.Duration";

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
    for (size_t i = 0; i < node.entries.size(); ++i) {
      const YamlEntry& entry = node.entries[i];
      const FieldDescriptor* field = FindField(type, entry.key);
      if (field == nullptr) {
        ReportUnknown(entry, path, type);
        FillMeant(node, entry, path, message, &chosen);
      } else if (const auto [first, is_new] = seen.emplace(field, entry.key); !is_new) {
        Report(entry.mark, path.Child(*field).shown,
               absl::StrCat("'", entry.key, "' and '", first->second, "' are one field; write it once"));
      } else if (ChooseInOneof(entry, path, *field, &chosen)) {
        const FieldPath child = path.Child(*field);
        SetMark(child, entry.mark);
        if (const YamlNode tuple = TupleAt(node.entries, &i); tuple.kind == YamlNode::Kind::kScalar) {
          FillField(tuple, child, *field, message);
        } else {
          FillField(entry.value, child, *field, message);
        }
      }
    }
  }

 private:
  // If only the case or the separators of an unknown key are wrong, as in "Data", reads its value all the same, so that
  // no problem is reported that the right key does not have.
  void FillMeant(const YamlNode& node, const YamlEntry& entry, const FieldPath& path, Message* message,
                 std::map<const OneofDescriptor*, std::string>* chosen) {
    const FieldDescriptor* const field = FieldOfSameLetters(*message->GetDescriptor(), entry.key);
    const bool is_other =
        field == nullptr || std::any_of(node.entries.begin(), node.entries.end(), [&](const YamlEntry& one) {
          return &one != &entry && FieldOfSameLetters(*message->GetDescriptor(), one.key) == field;
        });
    if (!is_other && ChooseInOneof(entry, path, *field, chosen)) {
      SetMark(path.Child(*field), entry.mark);
      FillField(entry.value, path.Child(*field), *field, message);
    }
  }

  static std::string Shown(const FieldPath& path) { return path.shown.empty() ? "the job file" : path.shown; }

  // If the value of the entry at `i` begins a tuple of Python in a JSON mapping, which YAML takes for several entries,
  // "(1", "8" and "8)", returns the whole text and sets `i` to the last of them. Otherwise returns a null.
  static YamlNode TupleAt(const std::vector<YamlEntry>& entries, size_t* i) {
    YamlNode whole = entries[*i].value;
    size_t last = *i;
    if (whole.kind != YamlNode::Kind::kScalar || whole.quoted || !whole.text.starts_with('(')) {
      return {};
    }
    while (!whole.text.ends_with(')') && last + 1 < entries.size() &&
           entries[last + 1].value.kind == YamlNode::Kind::kNull) {
      absl::StrAppend(&whole.text, ", ", entries[++last].key);
    }
    if (!whole.text.ends_with(')')) {
      return {};
    }
    *i = last;
    return whole;
  }

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
    const bool is_override = IsOverride(node.mark);
    if (is_scalar && !path.shown.empty() && RemovesSection(node.text, is_override)) {
      Report(node.mark, path.shown,
             is_override ? absl::StrCat(Shown(path), " is a mapping of fields, which --set cannot remove; ",
                                        InPlaceOfRemoval(path, type, node.text.empty()))
                         : absl::StrCat(Shown(path), " must be a mapping of fields, not ", QuotedText(node.text),
                                        "; remove the field"));
      return;
    }
    Report(node.mark, path.shown,
           absl::StrCat(Shown(path), " must be a mapping of fields, not ",
                        is_scalar ? QuotedText(node.text) : absl::StrCat("a list", AdviceOnList(node, path, type))),
           is_scalar ? MeantMapping(node.text, {path.shown, IsOverride(node.mark)}, type) : "", FieldNames(type));
  }

  // Returns what to do in place of a --set that removes the mapping at `path`.
  static std::string InPlaceOfRemoval(const FieldPath& path, const Descriptor& type, bool is_empty_text) {
    if (const FieldDescriptor* const period = FindField(type, "every_steps");
        period != nullptr && ZeroMeansAtTheEnd(*period)) {
      return absl::StrCat("set ", path.shown, ".every_steps=0, which means only at the end", HowToHaveNone(*period));
    }
    const bool may_be_empty = is_empty_text && !MeantBySwitch(type).empty();
    return absl::StrCat("remove it in the file", may_be_empty ? ", or write {} for a mapping without fields" : "");
  }

  // Whether the text stands for no section: "null" or "false".
  static bool RemovesSection(const std::string& text, bool is_override) {
    const std::string lower = absl::AsciiStrToLower(text);
    return lower == "none" || (text == "false" || text == "False") ||
           (is_override && (text.empty() || lower == "null" || text == "~"));
  }

  // Returns what to do with a list in place of a mapping; empty if its items are no fields of the mapping.
  static std::string AdviceOnList(const YamlNode& list, const FieldPath& path, const Descriptor& type) {
    if (!HoldsFields(list, type)) {
      return "";
    }
    std::set<std::string> keys;
    size_t num_keys = 0;
    for (const YamlNode& item : list.items) {
      for (const YamlEntry& entry : item.entries) {
        keys.insert(entry.key);
        ++num_keys;
      }
    }
    return path.shown.empty() && keys.size() < num_keys
               ? "; a job file holds one job, so put each item into a file of its own"
               : "; write the fields without the '-' or '[]' of a list";
  }

  // Whether the list's items are fields of the mapping that must stand in its place.
  static bool HoldsFields(const YamlNode& list, const Descriptor& type) {
    return !list.items.empty() && std::all_of(list.items.begin(), list.items.end(), [&type](const YamlNode& item) {
      return !item.entries.empty() && FindField(type, item.entries.front().key) != nullptr;
    });
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
      file_->has_rivals = file_->has_rivals || field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
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
      const std::string found = node.kind == YamlNode::Kind::kScalar     ? QuotedText(node.text)
                                : node.kind == YamlNode::Kind::kSequence ? "a list"
                                                                         : "empty";
      Report(node.mark, path.shown, absl::StrCat(path.shown, " must be a mapping of names to text, not ", found),
             MeantPairs(node, {path.shown, IsOverride(node.mark)}));
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
    if (node.kind == YamlNode::Kind::kNull) {
      ReportNull(node, path, field);
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

  // Reports a field of the file without a value, or with "null" or "~".
  void ReportNull(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field) {
    const bool is_text = field.cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    const bool is_label = field.containing_type()->options().map_entry();
    const std::string found = node.text.empty()
                                  ? " has no value"
                                  : absl::StrCat(" is ", QuotedText(node.text), ", which means no value in YAML");
    Report(node.mark, path.shown,
           absl::StrCat(path.shown, found,
                        !is_text            ? absl::StrCat("; it must be ", TypeWords(field), "; write one")
                        : node.text.empty() ? is_label ? "; it must be text; write \"\" for an empty text"
                                                       : "; it must be text; write one"
                                            : "; put the text in quotes",
                        IsRequired(field) ? "" : ", or remove the field"));
  }

  void ReportRefusal(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field,
                     const ScalarRefusal& refusal) {
    const std::string bare = IsOverride(node.mark) ? WithoutQuotes(node.text, field) : "";
    const std::string items = field.is_repeated() ? MeantItems(node.text, field) : "";
    Report(node.mark, path.shown,
           absl::StrCat(path.shown, " ", refusal.message, items.empty() ? "" : "; a ',' stands between two items",
                        WhyNoValue(node.text, IsOverride(node.mark))),
           !bare.empty()    ? bare
           : !items.empty() ? items
                            : MeantScalar(node, {path.shown, IsOverride(node.mark)}, refusal, field),
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
      const std::string bare = node.text.size() > kMaxShownText ? "VALUE" : node.text.substr(1, node.text.size() - 2);
      file_->notes.push_back(absl::StrCat(node.mark.source, ": the quotes are a part of the value ",
                                          Shortened(node.text, kMaxShownText), "; without them: ", kSetOption,
                                          ShellWord(absl::StrCat(path.shown, "=", bare))));
    }
  }

  JobFile* const file_;
  const YamlNode& root_;
};

}  // namespace

void FillSpec(const YamlNode& root, JobFile* file) { SpecFiller(file, root).Fill(root, {}, &file->spec); }

}  // namespace ampd::client
