#include "client/jobfile/spec_override.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxOverrideDepth = 16;
constexpr size_t kMaxMeant = 60;       // most bytes of a suggestion
constexpr size_t kMaxShownPath = 300;  // most bytes of a path in messages

// The beginning of an override's place in messages: "--set train.steps". A place in a file never begins so.
constexpr char kSet[] = "--set ";

// One word of a path: "module_rules[0]".
struct Step {
  std::string name;
  std::optional<size_t> index = {};
};

// Returns what is wrong with one word of a path; empty if nothing is, and then `step` holds the word.
std::string ReadStep(const std::string& word, Step* step) {
  const size_t bracket = word.find('[');
  step->name = word.substr(0, bracket);
  if (bracket == std::string::npos) {
    return "";
  }
  if (bracket == 0) {
    return absl::StrCat("'", word, "' has no name before its index; the index follows the name of a list: hidden[0]");
  }
  if (!word.ends_with("]")) {
    return absl::StrCat("'", word, "' has a '[' without a ']' at its end; an index is written as ", step->name, "[0]");
  }
  const std::string digits = word.substr(bracket + 1, word.size() - bracket - 2);
  if (absl::StrContains(digits, "][")) {
    return absl::StrCat("'", word, "' has two indices; no field is a list of lists");
  }
  size_t index = 0;
  if (digits.empty() || !std::all_of(digits.begin(), digits.end(), absl::ascii_isdigit) ||
      !absl::SimpleAtoi(digits, &index)) {
    return absl::StrCat("'", digits, "' is not the index of an item; indices are whole numbers from 0 on: ", step->name,
                        "[0]");
  }
  step->index = index;
  return "";
}

// Returns what is wrong with a path as a whole; empty if nothing is, and then `steps` holds its words.
std::string ReadPath(const std::string& path, std::vector<Step>* steps) {
  if (path.empty()) {
    return "has no path before the '='; an override is PATH=VALUE, for example train.steps=500";
  }
  if (path.front() == '.' || path.back() == '.') {
    return absl::StrCat("the path ", path.front() == '.' ? "begins" : "ends",
                        " with a dot; dots stand between names: ", "train.steps");
  }
  constexpr std::string_view kLabels = "labels.";
  if (const std::string key = absl::StrReplaceAll(path.substr(std::min(path.size(), kLabels.size())), {{"\"", ""}});
      path.starts_with(kLabels) && absl::StrContains(key, ".") && key.front() != '.' && key.back() != '.') {
    return absl::StrCat("a key with a dot stands in a mapping, which replaces all labels: labels={\"", key,
                        "\": VALUE}");
  }
  for (const auto word : absl::StrSplit(path, '.')) {
    if (word.empty()) {
      return "the path has two dots in a row; one dot stands between two names: train.steps";
    }
    if (const std::string wrong = ReadStep(std::string(word), &steps->emplace_back()); !wrong.empty()) {
      return wrong;
    }
  }
  return steps->size() > kMaxOverrideDepth
             ? absl::StrCat("a path has at most ", kMaxOverrideDepth, " names, not ", steps->size())
             : "";
}

// Applies one override: walks along its path and creates what is missing.
class Walk {
 public:
  Walk(SourceMark mark, AppliedOverrides* applied) : mark_(std::move(mark)), applied_(applied) {}

  // Returns the child of `node` named `name`. Creates it if it is missing, and removes the other members of its oneof.
  YamlNode* ChildOf(YamlNode* node, const std::string& name, const Descriptor* type);
  // Returns the item at `index` of the list `node`. The index right after the last item creates an item; a larger index
  // returns null.
  YamlNode* ItemOf(YamlNode* node, size_t index);

 private:
  void RemoveAlternatives(YamlNode* node, const Descriptor& type, const FieldDescriptor& field);

  const SourceMark mark_;
  AppliedOverrides* const applied_;
  std::string path_;  // path of the node that ChildOf returned last
};

// Removes the members of `node` that are in the same oneof as `field`. If another override has set such a member, this
// is a problem, because the user asked for both.
void Walk::RemoveAlternatives(YamlNode* node, const Descriptor& type, const FieldDescriptor& field) {
  const auto is_excluded = [&](const YamlEntry& entry) {
    const FieldDescriptor* const other = FindField(type, entry.key);
    return other != nullptr && other != &field && other->real_containing_oneof() == field.real_containing_oneof();
  };
  for (const YamlEntry& entry : node->entries) {
    if (!is_excluded(entry)) {
      continue;
    }
    if (entry.mark.source.starts_with(kSet)) {
      applied_->problems->push_back(
          {mark_, "",
           absl::StrCat("cannot be combined with ", entry.mark.source, ": a job file has only one of '",
                        FieldName(field), "' and '", entry.key, "'")});
    } else {
      const std::string prefix = path_.empty() ? "" : path_ + ".";
      applied_->replaced->push_back({mark_.source, absl::StrCat(prefix, entry.key), entry.mark});
    }
  }
  std::erase_if(node->entries, is_excluded);
}

YamlNode* Walk::ChildOf(YamlNode* node, const std::string& name, const Descriptor* type) {
  if (node->kind != YamlNode::Kind::kMap) {
    *node = YamlNode{YamlNode::Kind::kMap, mark_, "", false, {}, {}};
  }
  const FieldDescriptor* field = type == nullptr ? nullptr : FindField(*type, name);
  const auto same_field = [&](const YamlEntry& entry) {
    return entry.key == name || (field != nullptr && FindField(*type, entry.key) == field);
  };
  if (field != nullptr && field->real_containing_oneof() != nullptr) {
    RemoveAlternatives(node, *type, *field);
  }
  absl::StrAppend(&path_, path_.empty() ? "" : ".", name);
  auto entry = std::find_if(node->entries.begin(), node->entries.end(), same_field);
  if (entry == node->entries.end()) {
    node->entries.push_back({name, mark_, YamlNode{YamlNode::Kind::kNull, mark_, "", false, {}, {}}});
    entry = std::prev(node->entries.end());
  }
  entry->mark = mark_;
  return &entry->value;
}

YamlNode* Walk::ItemOf(YamlNode* node, size_t index) {
  if (node->kind != YamlNode::Kind::kSequence) {
    *node = YamlNode{YamlNode::Kind::kSequence, mark_, "", false, {}, {}};
  }
  if (index > node->items.size()) {
    return nullptr;
  }
  if (index == node->items.size()) {
    node->items.push_back(YamlNode{YamlNode::Kind::kNull, mark_, "", false, {}, {}});
  }
  return &node->items[index];
}

const Descriptor* TypeOfField(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* field = type == nullptr ? nullptr : FindField(*type, name);
  const bool is_message = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
  return is_message ? field->message_type() : nullptr;
}

// Returns the place of an override that has set the node or a part of it; null if none has.
const SourceMark* EarlierOverride(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kNull && node.mark.source.starts_with(kSet)) {
    return &node.mark;
  }
  for (const YamlNode& item : node.items) {
    if (const SourceMark* const mark = EarlierOverride(item); mark != nullptr) {
      return mark;
    }
  }
  for (const YamlEntry& entry : node.entries) {
    if (const SourceMark* const mark = EarlierOverride(entry.value); mark != nullptr) {
      return mark;
    }
  }
  return nullptr;
}

// Returns the paths of those fields of the mapping `before` that the mapping `after` does not have: "train.seed and
// train.epochs" for the mapping at "train".
std::string DroppedFields(const YamlNode& before, const YamlNode& after, const std::string& path) {
  std::vector<std::string> dropped;
  for (const YamlEntry& entry : before.entries) {
    const bool is_kept = std::any_of(after.entries.begin(), after.entries.end(),
                                     [&entry](const YamlEntry& other) { return other.key == entry.key; });
    if (!is_kept) {
      dropped.push_back(absl::StrCat(path, ".", entry.key));
    }
  }
  return absl::StrJoin(dropped, " and ");
}

void SetMarks(const SourceMark& mark, YamlNode* node) {
  node->mark = mark;
  for (YamlNode& item : node->items) {
    SetMarks(mark, &item);
  }
  for (YamlEntry& entry : node->entries) {
    entry.mark = mark;
    SetMarks(mark, &entry.value);
  }
}

// Returns the value of an assignment. Only a text that begins as a list or mapping is parsed as YAML; any other text
// is taken as it is, so that it needs no quotes.
std::optional<YamlNode> ValueOf(const std::string& text, const SourceMark& mark, std::vector<Problem>* problems) {
  if (!text.starts_with("[") && !text.starts_with("{")) {
    return YamlNode{YamlNode::Kind::kScalar, mark, text, true, {}, {}};
  }
  std::optional<YamlNode> node = ParseYaml(text, mark.source, kJobFileKind, problems);
  if (node.has_value()) {
    SetMarks(mark, &*node);
  }
  return node;
}

// Returns the path with an index in place of its word at `at`, which is a number: "model.mlp.hidden[0]" for
// "model.mlp.hidden.0".
std::string WithIndex(const std::vector<Step>& steps, size_t at) {
  std::string path;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    absl::StrAppend(&path, i == at ? absl::StrCat("[", step.name, "]") : absl::StrCat(i == 0 ? "" : ".", step.name),
                    step.index.has_value() ? absl::StrCat("[", *step.index, "]") : "");
  }
  return path;
}

// Whether the field `name` of the message is a list.
bool IsList(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* const field = type == nullptr ? nullptr : FindField(*type, name);
  return field != nullptr && field->is_repeated() && !field->is_map();
}

bool IsNumber(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
}

// Explains an assignment without a '='.
Problem NoAssignment(const std::string& assignment, const SourceMark& mark) {
  const size_t colon = assignment.find(':');
  const std::string meant =
      colon == std::string::npos ? "" : absl::StrCat(assignment.substr(0, colon), "=", assignment.substr(colon + 1));
  return {mark, "", "has no '='; an override is PATH=VALUE, for example train.steps=500", Shortened(meant, kMaxMeant)};
}

}  // namespace

void ApplyOverride(const std::string& assignment, const Descriptor& type, YamlNode* root,
                   const AppliedOverrides& applied) {
  AppliedOverrides out = applied;
  if (const auto invalid = FirstInvalidUtf8(assignment); invalid.has_value()) {
    const std::string path = OneLine(assignment.substr(0, assignment.find('=')));
    out.problems->push_back({{kSet + path, 0, 0}, path, NotUtf8(assignment, *invalid)});
    return;
  }
  const size_t equals = assignment.find('=');
  const std::string path(absl::StripAsciiWhitespace(assignment.substr(0, equals)));
  const SourceMark mark{kSet + (path.empty() ? "''" : Shortened(path, kMaxShownPath)), 0, 0};
  const auto refuse = [&](std::string why, std::string nearest = "") {
    out.problems->push_back({mark, path, std::move(why), std::move(nearest)});
  };
  if (equals == std::string::npos) {
    out.problems->push_back(NoAssignment(path, mark));
    return;
  }
  std::vector<Step> steps;
  if (std::string wrong = ReadPath(path, &steps); !wrong.empty()) {
    refuse(std::move(wrong));
    return;
  }
  std::optional<YamlNode> value =
      ValueOf(std::string(absl::StripAsciiWhitespace(assignment.substr(equals + 1))), mark, out.problems);
  if (!value.has_value()) {
    return;
  }
  Walk walk(mark, &out);
  const YamlNode before = *root;
  YamlNode* node = root;
  const Descriptor* level = &type;
  for (size_t i = 0; i < steps.size(); ++i) {
    const Step& step = steps[i];
    if (i + 1 < steps.size() && !step.index.has_value() && IsList(level, step.name) && IsNumber(steps[i + 1].name)) {
      refuse(absl::StrCat("the index of an item is written in brackets: ", step.name, "[", steps[i + 1].name, "]"),
             WithIndex(steps, i + 1));
      *root = before;  // The nodes that were created would be reported as problems of their own.
      return;
    }
    node = walk.ChildOf(node, step.name, level);
    level = TypeOfField(level, step.name);
    YamlNode* const list = node;
    if (step.index.has_value() && (node = walk.ItemOf(list, *step.index)) == nullptr) {
      refuse(absl::StrCat("there is no item ", *step.index, " in ", step.name, "; the list has ", list->items.size(),
                          list->items.size() == 1 ? " item" : " items", ", so ", step.name, "[", list->items.size(),
                          "] adds one"));
      *root = before;
      return;
    }
  }
  if (const SourceMark* const earlier = EarlierOverride(*node); earlier != nullptr) {
    refuse(earlier->source == mark.source
               ? "is given twice; give it once"
               : absl::StrCat("sets again what ", earlier->source, " sets; give one of them"));
    return;
  }
  if (const std::string dropped = DroppedFields(*node, *value, path); !dropped.empty()) {
    out.replaced->push_back({mark.source, dropped, node->mark});
  }
  *node = *std::move(value);
}

}  // namespace ampd::client
