#include "client/jobfile/spec_override.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxOverrideDepth = 16;

// One word of a path: "module_rules[0]".
struct Step {
  std::string name;
  std::optional<size_t> index;
};

std::optional<Step> ParseStep(const std::string& word) {
  const size_t bracket = word.find('[');
  if (bracket == std::string::npos) {
    return word.empty() ? std::nullopt : std::optional<Step>({word, std::nullopt});
  }
  size_t index = 0;
  if (bracket == 0 || !word.ends_with("]") ||
      !absl::SimpleAtoi(word.substr(bracket + 1, word.size() - bracket - 2), &index)) {
    return std::nullopt;
  }
  return Step{word.substr(0, bracket), index};
}

std::optional<std::vector<Step>> ParsePath(const std::string& path) {
  std::vector<Step> steps;
  for (const auto word : absl::StrSplit(path, '.')) {
    std::optional<Step> step = ParseStep(std::string(word));
    if (!step.has_value()) {
      return std::nullopt;
    }
    steps.push_back(*std::move(step));
  }
  return steps;
}

// Returns the child of `node` named `name`. Creates it if it is missing, and removes the other members of its oneof.
YamlNode* ChildOf(YamlNode* node, const std::string& name, const Descriptor* type, const SourceMark& mark) {
  if (node->kind != YamlNode::Kind::kMap) {
    *node = YamlNode{YamlNode::Kind::kMap, mark, "", false, {}, {}};
  }
  const FieldDescriptor* field = type == nullptr ? nullptr : FindField(*type, name);
  const auto same_field = [&](const YamlEntry& entry) {
    return entry.key == name || (field != nullptr && FindField(*type, entry.key) == field);
  };
  if (field != nullptr && field->real_containing_oneof() != nullptr) {
    std::erase_if(node->entries, [&](const YamlEntry& entry) {
      const FieldDescriptor* other = FindField(*type, entry.key);
      return other != nullptr && other != field && other->real_containing_oneof() == field->real_containing_oneof();
    });
  }
  auto entry = std::find_if(node->entries.begin(), node->entries.end(), same_field);
  if (entry == node->entries.end()) {
    node->entries.push_back({name, mark, YamlNode{YamlNode::Kind::kNull, mark, "", false, {}, {}}});
    entry = std::prev(node->entries.end());
  }
  entry->mark = mark;
  return &entry->value;
}

// Returns the item at `index` of the list `node`. The index right after the last item creates an item; a larger index
// returns null.
YamlNode* ItemOf(YamlNode* node, size_t index, const SourceMark& mark) {
  if (node->kind != YamlNode::Kind::kSequence) {
    *node = YamlNode{YamlNode::Kind::kSequence, mark, "", false, {}, {}};
  }
  if (index > node->items.size()) {
    return nullptr;
  }
  if (index == node->items.size()) {
    node->items.push_back(YamlNode{YamlNode::Kind::kNull, mark, "", false, {}, {}});
  }
  return &node->items[index];
}

const Descriptor* TypeOfField(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* field = type == nullptr ? nullptr : FindField(*type, name);
  const bool is_message = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
  return is_message ? field->message_type() : nullptr;
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
  std::optional<YamlNode> node = ParseYaml(text, mark.source, problems);
  if (node.has_value()) {
    SetMarks(mark, &*node);
  }
  return node;
}

}  // namespace

void ApplyOverride(const std::string& assignment, const Descriptor& type, YamlNode* root,
                   std::vector<Problem>* problems) {
  if (const auto invalid = FirstInvalidUtf8(assignment); invalid.has_value()) {
    const std::string path = OneLine(assignment.substr(0, assignment.find('=')));
    problems->push_back({{absl::StrCat("--set ", path), 0, 0}, path, NotUtf8(assignment, *invalid), "", {}});
    return;
  }
  const size_t equals = assignment.find('=');
  const std::string path(absl::StripAsciiWhitespace(assignment.substr(0, equals)));
  const SourceMark mark{absl::StrCat("--set ", path.empty() ? "''" : path), 0, 0};
  const auto refuse = [&](std::string why) { problems->push_back({mark, path, std::move(why), "", {}}); };
  const std::optional<std::vector<Step>> steps = ParsePath(path);
  if (steps.has_value() && steps->size() > kMaxOverrideDepth) {
    refuse(absl::StrCat("a path has at most ", kMaxOverrideDepth, " names, not ", steps->size()));
    return;
  }
  if (equals == std::string::npos || !steps.has_value()) {
    refuse("an override is path=value, for example train.epochs=2 or precision.module_rules[0].compute=fp32");
    return;
  }
  std::optional<YamlNode> value =
      ValueOf(std::string(absl::StripAsciiWhitespace(assignment.substr(equals + 1))), mark, problems);
  if (!value.has_value()) {
    return;
  }
  YamlNode* node = root;
  const Descriptor* level = &type;
  for (const Step& step : *steps) {
    node = ChildOf(node, step.name, level, mark);
    level = TypeOfField(level, step.name);
    YamlNode* const list = node;
    if (step.index.has_value() && (node = ItemOf(list, *step.index, mark)) == nullptr) {
      refuse(absl::StrCat("there is no item ", *step.index, " in ", step.name, "; the list has ", list->items.size(),
                          list->items.size() == 1 ? " item" : " items", ", so ", step.name, "[", list->items.size(),
                          "] adds one"));
      return;
    }
  }
  *node = *std::move(value);
}

}  // namespace ampd::client
