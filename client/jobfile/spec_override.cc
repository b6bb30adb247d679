#include "client/jobfile/spec_override.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/text.h"
#include "client/jobfile/field_limits.h"
#include "client/jobfile/meant_override.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/override_path.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/unknown_key.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxShownPath = 300;  // most bytes of a path in messages

// Applies one override: walks along its path and creates what is missing.
class Walk {
 public:
  Walk(SourceMark mark, AppliedOverrides* applied) : mark_(std::move(mark)), applied_(applied) {}

  // Returns the child of `node` named `name`. Creates it if it is missing, and removes the other members of its oneof.
  // Makes `node` a mapping. If it is a value in a place where only a value may be, the reader reports the mapping.
  YamlNode* ChildOf(YamlNode* node, const std::string& name, const Descriptor* type);
  // Returns the item at `index` of the list `node`. The index right after the last item creates an item; a larger index
  // returns null.
  YamlNode* ItemOf(YamlNode* node, size_t index);
  // Makes the node a list of the items `defaults`, and records a note about that. Does nothing if `defaults` is empty.
  // REQUIRES: the last call of ChildOf returned this node, and the file does not set it.
  void FillIn(std::vector<YamlNode> defaults, YamlNode* node);

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
    if (entry.mark.source.starts_with(kSetOption)) {
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

void Walk::FillIn(std::vector<YamlNode> defaults, YamlNode* node) {
  if (defaults.empty()) {
    return;
  }
  const std::string all =
      absl::StrJoin(defaults, ", ", [](std::string* text, const YamlNode& item) { text->append(item.text); });
  applied_->notes->push_back(
      absl::StrCat(mark_.source, " starts from the default list, [", all, "], because the file does not set ", path_));
  *node = YamlNode{YamlNode::Kind::kSequence, defaults.front().mark, "", false, std::move(defaults), {}};
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

// Returns the place of an override that has set the node or a part of it; null if none has.
const SourceMark* EarlierOverride(const YamlNode& node) {
  if (node.kind != YamlNode::Kind::kNull && node.mark.source.starts_with(kSetOption)) {
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
std::optional<YamlNode> ValueOf(const std::string& text, bool is_text, const SourceMark& mark,
                                std::vector<Problem>* problems) {
  if (is_text || (!text.starts_with("[") && !text.starts_with("{"))) {
    return YamlNode{YamlNode::Kind::kScalar, mark, text, true, {}, {}};
  }
  const size_t num_before = problems->size();
  std::optional<YamlNode> node = ParseYaml(text, mark.source, kJobFileKind, problems);
  for (size_t i = num_before; i < problems->size(); ++i) {
    (*problems)[i].mark = mark;  // The value is a line that the user sees, so its columns need no numbers.
  }
  if (node.has_value()) {
    SetMarks(mark, &*node);
  }
  return node;
}

// Whether the path leads to a text: a field, an item of a list of texts, or a label.
bool IsText(const std::vector<PathStep>& steps, const Descriptor& type) {
  const Descriptor* level = &type;
  for (size_t i = 0; i + 1 < steps.size(); ++i) {
    const FieldDescriptor* const field = level == nullptr ? nullptr : FindField(*level, steps[i].name);
    if (field != nullptr && field->is_map()) {
      return i + 2 == steps.size() && field->message_type()->map_value()->cpp_type() == FieldDescriptor::CPPTYPE_STRING;
    }
    level = TypeOfField(level, steps[i].name);
  }
  const FieldDescriptor* const last = level == nullptr ? nullptr : FindField(*level, steps.back().name);
  return last != nullptr && last->cpp_type() == FieldDescriptor::CPPTYPE_STRING &&
         last->is_repeated() == steps.back().index.has_value();
}

// Returns the list that the server fills in if the job file does not set the field; empty if it fills in none.
std::vector<YamlNode> DefaultItems(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* const field = type == nullptr ? nullptr : FindField(*type, name);
  const FieldLimits* const limits = field == nullptr ? nullptr : LimitsOf(*field);
  const std::string text = limits == nullptr ? "" : limits->default_value;
  std::vector<Problem> problems;
  const std::string place = absl::StrCat("the default of ", name);
  std::optional<YamlNode> list = text.starts_with("[") ? ParseYaml(text, place, kJobFileKind, &problems) : std::nullopt;
  if (!list.has_value()) {
    return {};
  }
  SetMarks({place, 0, 0}, &*list);
  return list->items;
}

// Says that the list has too few items for the index.
std::string NoItem(const std::string& list, size_t index, size_t num_items) {
  return absl::StrCat("there is no item ", index, " in ", list, "; the list has ", num_items,
                      num_items == 1 ? " item" : " items", ", so ", list, "[", num_items, "] adds one");
}

// Returns the end of a message about the index `digits` of the list `name` of `node`, if the list has too few items for
// it; otherwise "".
std::string LacksItem(const YamlNode& node, const std::string& name, const std::string& digits,
                      const Descriptor* type) {
  const auto entry =
      std::find_if(node.entries.begin(), node.entries.end(), [&name](const YamlEntry& one) { return one.key == name; });
  const size_t num_items = entry == node.entries.end() ? DefaultItems(type, name).size() : entry->value.items.size();
  size_t index = 0;
  return absl::SimpleAtoi(digits, &index) && index <= num_items ? "" : "; " + NoItem(name, index, num_items);
}

// The kind of value that a field or an item takes.
enum class Shape { kMapping, kList, kOneValue };

// Returns the shape of the field `name` of a message of `type`, or of its items. An unknown field has one value here,
// because the reader reports the field itself.
Shape ShapeOf(const Descriptor* type, const std::string& name, bool is_item) {
  const FieldDescriptor* const field = type == nullptr ? nullptr : FindField(*type, name);
  if (field == nullptr) {
    return Shape::kOneValue;
  }
  if (field->is_repeated() && !field->is_map() && !is_item) {
    return Shape::kList;
  }
  const bool has_fields = field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE &&
                          field->message_type()->full_name() != "google.protobuf.Duration";
  return has_fields ? Shape::kMapping : Shape::kOneValue;
}

// Whether the node has no value, or a value of this kind.
bool MayBe(const YamlNode& node, YamlNode::Kind kind) {
  return node.kind == YamlNode::Kind::kNull || node.kind == kind;
}

// Explains that an override sets a part of `path`, at which `node` is. A value of the kind `wanted` must be there.
std::string ExplainNoParts(const YamlNode& node, const std::string& path, const char* wanted) {
  return absl::StrCat("sets a part of ", path, ", but ", node.mark.ToString(), " sets ", path, " to ",
                      node.kind == YamlNode::Kind::kScalar     ? QuotedKey(node.text)
                      : node.kind == YamlNode::Kind::kSequence ? "a list"
                                                               : "a mapping",
                      "; ", path, " must be ", wanted);
}

// Walks along the path `steps` from `root`, the tree of a message of `type`. Returns the node at the end of the path.
// Returns null if the path cannot be followed, and then `refusal` says why.
YamlNode* NodeAt(const std::vector<PathStep>& steps, const Descriptor& type, YamlNode* root, Walk* walk,
                 PathRefusal* refusal) {
  YamlNode* node = root;
  const Descriptor* level = &type;
  Shape shape = Shape::kMapping;  // The shape of `node`.
  std::string path;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PathStep& step = steps[i];
    if (i + 1 < steps.size() && !step.index.has_value() && IsList(level, step.name) && IsNumber(steps[i + 1].name)) {
      const std::string lacks = LacksItem(*node, step.name, steps[i + 1].name, level);
      refusal->message =
          absl::StrCat("the index of an item is written in brackets: ", step.name, "[", steps[i + 1].name, "]", lacks);
      refusal->nearest = lacks.empty() ? WithIndex(steps, i + 1) : "";
      return nullptr;
    }
    if (shape == Shape::kMapping && !MayBe(*node, YamlNode::Kind::kMap)) {
      refusal->message = ExplainNoParts(*node, path, "a mapping");
      return nullptr;
    }
    YamlNode* const child = walk->ChildOf(node, step.name, level);
    absl::StrAppend(&path, path.empty() ? "" : ".", step.name);
    if (step.index.has_value() && ShapeOf(level, step.name, /*is_item=*/false) == Shape::kList &&
        !MayBe(*child, YamlNode::Kind::kSequence)) {
      refusal->message = ExplainNoParts(*child, path, "a list");
      return nullptr;
    }
    if (step.index.has_value() && child->kind == YamlNode::Kind::kNull) {
      walk->FillIn(DefaultItems(level, step.name), child);
    }
    shape = ShapeOf(level, step.name, step.index.has_value());
    level = TypeOfField(level, step.name);
    node = step.index.has_value() ? walk->ItemOf(child, *step.index) : child;
    if (node == nullptr) {
      refusal->message = NoItem(step.name, *step.index, child->items.size());
      return nullptr;
    }
    absl::StrAppend(&path, step.index.has_value() ? absl::StrCat("[", *step.index, "]") : "");
  }
  return node;
}

// The path of an assignment, without blanks around it.
std::string PathIn(const std::string& assignment) {
  return std::string(absl::StripAsciiWhitespace(assignment.substr(0, assignment.find('='))));
}

}  // namespace

std::string PlaceOfOverride(const std::string& assignment) {
  const std::string path = PathIn(assignment);
  return kSetOption + (path.empty() ? "''" : Shortened(path, kMaxShownPath));
}

void ApplyOverride(const std::string& assignment, const Descriptor& type, YamlNode* root,
                   const AppliedOverrides& applied) {
  AppliedOverrides out = applied;
  if (const auto invalid = FirstInvalidUtf8(assignment); invalid.has_value()) {
    const std::string path = OneLine(assignment.substr(0, assignment.find('=')));
    out.problems->push_back({{kSetOption + path, 0, 0}, path, NotUtf8(assignment, *invalid)});
    return;
  }
  const size_t equals = assignment.find('=');
  const std::string path = PathIn(assignment);
  const SourceMark mark{PlaceOfOverride(assignment), 0, 0};
  const auto refuse = [&](std::string why, std::string nearest = "") {
    out.problems->push_back({mark, path, std::move(why), std::move(nearest)});
  };
  if (equals == std::string::npos) {
    PathRefusal refusal = ExplainNoAssignment(path, type);
    out.problems->push_back({mark, "", std::move(refusal.message), std::move(refusal.nearest)});
    return;
  }
  if (std::optional<PathRefusal> foreign = ExplainForeignPath(path, type, *root); foreign.has_value()) {
    refuse(std::move(foreign->message), std::move(foreign->nearest));
    return;
  }
  const std::string text(absl::StripAsciiWhitespace(assignment.substr(equals + 1)));
  if (std::optional<PathRefusal> dotted = ExplainDottedLabel(path, text); dotted.has_value()) {
    refuse(std::move(dotted->message));
    return;
  }
  std::vector<PathStep> steps;
  if (std::optional<PathRefusal> wrong = ReadPath(path, type, &steps); wrong.has_value()) {
    refuse(std::move(wrong->message), std::move(wrong->nearest));
    return;
  }
  std::optional<YamlNode> value = ValueOf(text, IsText(steps, type), mark, out.problems);
  if (!value.has_value()) {
    return;
  }
  if (!MayBe(*root, YamlNode::Kind::kMap)) {
    return;  // The reader reports a job file that is no mapping.
  }
  Walk walk(mark, &out);
  const YamlNode before = *root;
  PathRefusal refusal;
  YamlNode* const node = NodeAt(steps, type, root, &walk, &refusal);
  if (node == nullptr) {
    *root = before;  // The nodes that were created would be reported as problems of their own.
    refuse(std::move(refusal.message), std::move(refusal.nearest));
    return;
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
