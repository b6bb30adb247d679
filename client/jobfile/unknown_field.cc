#include "client/jobfile/unknown_field.h"

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/nearest.h"
#include "base/text.h"
#include "base/yaml/look_alike.h"
#include "client/jobfile/foreign_names.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/override_path.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"
#include "client/jobfile/unknown_key.h"

namespace ampd::client {
namespace {

// Returns how many of the path's first words the job file has.
size_t NumWordsIn(const YamlNode& root, const std::string& path) {
  const YamlNode* node = &root;
  size_t num_words = 0;
  for (const auto word : absl::StrSplit(path, '.')) {
    // In "optimizer: AdamW", which is no job file either, adamw is the choice.
    num_words += node->kind == YamlNode::Kind::kScalar && absl::EqualsIgnoreCase(node->text, word);
    const auto entry =
        std::find_if(node->entries.begin(), node->entries.end(), [&](const YamlEntry& one) { return one.key == word; });
    if (entry == node->entries.end()) {
      // "optimizer: {name: adamw}" is not valid in a job file, but shows that adamw is meant as the choice of the
      // optimizer.
      num_words += std::any_of(node->entries.begin(), node->entries.end(),
                               [&](const YamlEntry& one) { return absl::EqualsIgnoreCase(one.value.text, word); });
      break;
    }
    node = &entry->value;
    ++num_words;
  }
  return num_words;
}

// Returns the paths to fields with this name, the most likely first: those in the same section, short ones, and of
// these the ones that suit the choices which the job file has made, such as the learning rate of its own optimizer. If
// it has chosen no optimizer, AdamW comes first: `ampctl init` and most other programs use it by default.
std::vector<std::string> LikelyPaths(const UnknownField& unknown, const std::string& name) {
  constexpr size_t kMostPaths = 3;
  constexpr size_t kMostExamined = 100;
  std::vector<std::string> paths = PathsTo(*unknown.whole, name, kMostExamined);
  const std::string section = unknown.section.empty() ? "" : unknown.section + ".";
  std::stable_sort(paths.begin(), paths.end(), [&](const std::string& a, const std::string& b) {
    if (a.starts_with(section) != b.starts_with(section)) {
      return a.starts_with(section);
    }
    const auto num_a = std::count(a.begin(), a.end(), '.');
    const auto num_b = std::count(b.begin(), b.end(), '.');
    if (num_a != num_b) {
      return num_a < num_b;
    }
    const size_t suits_a = NumWordsIn(*unknown.root, a);
    const size_t suits_b = NumWordsIn(*unknown.root, b);
    constexpr std::string_view kDefault = "optimizer.adamw.";
    return suits_a != suits_b ? suits_a > suits_b : a.starts_with(kDefault) && !b.starts_with(kDefault);
  });
  paths.resize(std::min(paths.size(), kMostPaths));
  return paths;
}

// Whether the unknown key is a mapping in which a field of the job file stands, such as "spec" in what `ampctl job
// submit --dry-run -o yaml` prints.
bool HoldsFields(const UnknownField& unknown) {
  const auto entry = std::find_if(unknown.root->entries.begin(), unknown.root->entries.end(),
                                  [&](const YamlEntry& one) { return one.key == unknown.key; });
  return entry != unknown.root->entries.end() && !entry->value.entries.empty() && !unknown.is_override &&
         FindField(*unknown.type, entry->value.entries.front().key) != nullptr;
}

// Explains a key in a section whose choice it may have been meant for: "hidden_size" in "model: {type: mlp}". Returns
// nothing if the section has made no choice or if the key is not a field of another choice.
std::optional<UnknownFieldAnswer> ExplainInChoice(const UnknownField& unknown, const std::vector<std::string>& found) {
  const google::protobuf::FieldDescriptor* const choice = unknown.section.empty() ? nullptr : ChoiceOfSection(unknown);
  const std::string own = choice == nullptr ? "" : absl::StrCat(unknown.section, ".", FieldName(*choice));
  const bool is_of_other = choice != nullptr && !unknown.is_override &&
                           std::any_of(found.begin(), found.end(), [&](const std::string& path) {
                             return path.starts_with(unknown.section + ".");
                           });
  if (!is_of_other || FindField(*choice->message_type(), unknown.key) != nullptr) {
    return std::nullopt;
  }
  return UnknownFieldAnswer{absl::StrCat(QuotedKey(unknown.key), " is not a field of ", unknown.section, " or ", own),
                            "", FieldNames(*choice->message_type())};
}

// Returns the assignments for a list of another program whose items are fields of their own here: "beta1: 0.9, beta2:
// 0.95" for "betas: [0.9, 0.95]". Empty if the type has no such fields.
std::string MeantByPair(const UnknownField& unknown) {
  const bool is_pair = LettersOf(unknown.key) == "betas" && FindField(*unknown.type, "beta1") != nullptr &&
                       FindField(*unknown.type, "beta2") != nullptr && unknown.value != nullptr;
  if (!is_pair) {
    return "";
  }
  std::vector<std::string> values = absl::StrSplit(unknown.value->text, absl::ByAnyChar(" ,()"), absl::SkipEmpty());
  for (const YamlNode& item : unknown.value->items) {
    values.push_back(item.text);
  }
  values.resize(std::max<size_t>(values.size(), 2), "...");
  return unknown.is_override ? absl::StrCat("--set ", unknown.section, ".beta1=", values[0], " --set ", unknown.section,
                                            ".beta2=", values[1])
                             : absl::StrCat("beta1: ", values[0], ", beta2: ", values[1]);
}

// Explains a merge key, whose value is the mapping to merge.
UnknownFieldAnswer ExplainMerge(const UnknownField& unknown) {
  std::vector<std::string> fields;
  if (unknown.value != nullptr) {
    for (const YamlEntry& entry : unknown.value->entries) {
      fields.push_back(entry.key);
    }
  }
  return {absl::StrCat("merge keys ('<<') are not supported; remove the line, and write out ",
                       fields.empty() ? "the fields" : absl::StrJoin(fields, ", "),
                       " here, unless this mapping sets them")};
}

// Returns the name or the path, from the section on, of the field that was probably meant; empty if there is none.
std::string MeantInSection(const UnknownField& unknown) {
  if (const std::string usual = UsualName(unknown.key); FindField(*unknown.type, usual) != nullptr) {
    return usual;
  }
  const std::vector<std::string> like = PathsLike(*unknown.type, unknown.key);
  return like.empty() ? Nearest(unknown.key, FieldNames(*unknown.type)) : like.front();
}

// Returns the fields that stand beside a key which names the choice, as the choice has them: "learning_rate: 0.1" in
// "{type: sgd, lr: 0.1}". Leaves out keys that are no fields of the choice.
std::string FieldsBeside(const UnknownField& unknown, const std::string& choice) {
  const google::protobuf::Descriptor& type = *FindField(*unknown.type, choice)->message_type();
  const YamlNode* const section = SectionOf(unknown);
  std::vector<std::string> fields;
  for (const YamlEntry& entry : section == nullptr ? std::vector<YamlEntry>() : section->entries) {
    const std::string usual = UsualName(entry.key);
    const google::protobuf::FieldDescriptor* const field = FindField(type, usual.empty() ? entry.key : usual);
    if (field != nullptr && entry.value.kind == YamlNode::Kind::kScalar) {
      fields.push_back(absl::StrCat(FieldName(*field), ": ", Shortened(entry.value.text, kMaxShownText)));
    }
  }
  return absl::StrJoin(fields, ", ");
}

// Returns the field at `path` as the user would write it there with the key's value: "precision: {loss_scale: {static:
// {scale: 1024}}}" for "loss_scale: 1024" in another section. Returns the path alone if its field takes the value as it
// is, or cannot take it.
std::string WrittenWithValue(const UnknownField& unknown, const std::string& path) {
  const google::protobuf::Descriptor* type = unknown.whole;
  for (const auto word : absl::StrSplit(path, '.')) {
    type = TypeOfField(type, std::string(word));
  }
  const std::string value = unknown.is_override ? "" : ValueText(unknown);
  const std::string mapping = type == nullptr || value.empty() ? "" : MeantMapping(value, {path}, *type);
  return mapping.empty() ? path : Written(path, /*is_override=*/false, mapping);
}

// Whether the value is a number without a unit, or missing.
bool IsPlainNumber(const YamlNode* value) {
  double number = 0;
  return value == nullptr || (value->kind == YamlNode::Kind::kScalar && absl::SimpleAtod(value->text, &number));
}

// Returns what to do with a key for which a job file has no field; empty if it is not known.
std::string AdviceFor(const UnknownField& unknown) {
  const auto has = [&unknown](const char* key) {
    return std::any_of(unknown.root->entries.begin(), unknown.root->entries.end(),
                       [key](const YamlEntry& one) { return one.key == key; });
  };
  const google::protobuf::FieldDescriptor* const choice = ChoiceOfSection(unknown);
  for (const std::string_view word : {"params", "args", "kwargs", "config"}) {
    if (choice != nullptr && unknown.key == word) {
      return absl::StrCat("the fields of ", FieldName(*choice), " stand directly below it: ", FieldName(*choice), ": {",
                          FieldName(*choice->message_type()->field(0)), ": ...}");
    }
  }
  const bool has_steps = FindField(*unknown.type, "every_steps") != nullptr && !IsPlainNumber(unknown.value);
  if (has_steps && (LettersOf(unknown.key) == "every" || LettersOf(unknown.key) == "interval")) {
    return absl::StrCat("set ", unknown.section, ".every_steps, which counts steps, not time or epochs");
  }
  // At the top, "kind" is a field of Kubernetes if "apiVersion" is there too.
  const bool is_kind = unknown.section.empty() && unknown.key == "kind" && has("apiVersion");
  return AdviceOn(is_kind ? "apiVersion" : unknown.key);
}

// Returns the preset for a section of DeepSpeed that sets more than its switch: "fp16: {enabled: true, loss_scale: 0}".
// Empty for any other key.
std::string PresetOfDeepSpeed(const UnknownField& unknown, const UsualField& field) {
  const bool is_section = field.path == "precision.preset" && unknown.value != nullptr &&
                          unknown.value->kind == YamlNode::Kind::kMap && !MeansNo(ValueText(unknown)) &&
                          std::any_of(unknown.value->entries.begin(), unknown.value->entries.end(),
                                      [](const YamlEntry& one) { return one.key != "enabled"; });
  return is_section ? NearestPreset("deepspeed-" + field.value) : "";
}

// The samples of a step, if the key is the size of one part of a batch, and a field beside it has the number of parts:
// "per_device_train_batch_size: 8" beside "gradient_accumulation_steps: 4".
struct WholeBatch {
  std::string why = {};      // the end of the message; empty: the key is no such field
  std::string samples = {};  // "32"
};
WholeBatch WholeBatchOf(const UnknownField& unknown, const std::string& value) {
  const YamlNode* const section = IsPartOfBatch(unknown.key) ? SectionOf(unknown) : nullptr;
  int64_t part = 0;
  if (section == nullptr || !absl::SimpleAtoi(value, &part)) {
    return {};
  }
  for (const YamlEntry& entry : section->entries) {
    int64_t num_parts = 0;
    const std::string path = UsualFieldOf(entry.key, entry.value.text).path;
    if (path == "train.gradient_accumulation" && absl::SimpleAtoi(entry.value.text, &num_parts) && part > 0 &&
        part < INT32_MAX && num_parts > 1 && num_parts < INT32_MAX) {
      return {absl::StrCat("; data.batch_size counts all samples of a step, here ", part, " times ", num_parts),
              absl::StrCat(part * num_parts)};
    }
  }
  return {};
}

// Says what the field at `path` measures, if the field of another program with a like name measures something else.
std::string WhatIsMeasured(const std::string& path) {
  return path == "resources.memory_bytes" ? "; memory_bytes is memory of the device that the job runs on"
         : path == "deadline"             ? "; deadline counts from the job's first start"
                                          : "";
}

// Says that the path, of one word, stands at the top and not in the key's section.
std::string WhereAtTop(const UnknownField& unknown, const std::string& path) {
  return unknown.section.empty() || absl::StrContains(path, '.') ? ""
         : path == unknown.key                                   ? ", but there is one at the top level of the file"
                               : ", but a field at the top level of the file does that";
}

// Explains an unknown key if the field that does in ampd what the key asks for, `name`, already stands in the same
// section of the file: "gpus: 1" above "kind: AUTO".
// `meant` is the value that the field should have; empty: unknown. Returns nothing if the section has no such field.
std::optional<UnknownFieldAnswer> ExplainFieldBeside(const UnknownField& unknown, const std::string& name,
                                                     const std::string& meant, const std::string& no_field) {
  const YamlNode* const section = unknown.is_override || meant.empty() ? nullptr : SectionOf(unknown);
  if (section == nullptr) {
    return std::nullopt;
  }
  const auto beside = std::find_if(section->entries.begin(), section->entries.end(),
                                   [&name](const YamlEntry& one) { return one.key == name; });
  if (beside == section->entries.end()) {
    return std::nullopt;
  }
  return UnknownFieldAnswer{absl::StrCat(no_field, "; ", name, " in line ", beside->mark.line, " does that: set it to ",
                                         meant, ", and remove this line")};
}

// Explains a key that other programs use for a field of a job file, such as "epochs". `no_field` says which field does
// not exist. Empty if no such key is known.
std::optional<UnknownFieldAnswer> ExplainUsualField(const UnknownField& unknown, const std::string& no_field) {
  const std::string value = ValueText(unknown);
  const UsualField field = UsualFieldOf(unknown.key, value);
  if (const std::string preset = PresetOfDeepSpeed(unknown, field); !preset.empty()) {
    return UnknownFieldAnswer{absl::StrCat(no_field, "; its loss scale is set in precision.loss_scale"),
                              Written("precision.preset", unknown.is_override, preset)};
  }
  if (field.path == "precision.preset" && MeansNo(value)) {
    return UnknownFieldAnswer{absl::StrCat(no_field, "; precision.preset alone chooses the formats; leave it out")};
  }
  const std::string section = unknown.section.empty() ? "" : unknown.section + ".";
  const bool is_here = !section.empty() && absl::StartsWith(field.path, section);
  if (!field.path.empty() && field.path != unknown.section) {
    int64_t count = 0;
    const bool is_several = field.path == "resources.kind" && absl::SimpleAtoi(value, &count) && count > 1;
    const WholeBatch batch = WholeBatchOf(unknown, value);
    const std::string meant = batch.samples.empty() ? field.value : batch.samples;
    if (is_here && !is_several) {
      const std::string name = field.path.substr(section.size());
      if (auto beside = ExplainFieldBeside(unknown, name, meant, no_field); beside.has_value()) {
        beside->message += WhatIsMeasured(field.path);
        return beside;
      }
    }
    return UnknownFieldAnswer{
        absl::StrCat(no_field, is_here ? "" : WhereAtTop(unknown, field.path),
                     is_several ? "; a job runs on one device" : batch.why, WhatIsMeasured(field.path)),
        Written(is_here && (!unknown.is_override || meant.empty()) ? field.path.substr(section.size()) : field.path,
                unknown.is_override, meant)};
  }
  return std::nullopt;
}

}  // namespace

UnknownFieldAnswer ExplainUnknownField(const UnknownField& unknown) {
  if (unknown.key == "<<") {
    return ExplainMerge(unknown);
  }
  const std::string quoted = QuotedKey(unknown.key);
  if (const KeyedValue keyed = KeyedValueOf(unknown); keyed.field != nullptr) {
    const bool has_colon = unknown.key[unknown.key.find_first_of(":= ")] == ':';
    return {absl::StrCat(has_colon ? "a ':' needs a space after it: " : absl::StrCat(quoted, " has no ':'; write "),
                         FieldName(*keyed.field), ": ", keyed.value)};
  }
  if (unknown.section.empty() && FieldOfSameLetters(*unknown.type, unknown.key) == nullptr && HoldsFields(unknown)) {
    return {absl::StrCat(quoted,
                         " is not a field of a job file, whose fields stand at the top; remove the line and "
                         "indent what is below it less")};
  }
  const std::string no_field =
      absl::StrCat(quoted, " is not a field of ", unknown.section.empty() ? "a job file" : unknown.section);
  if (const std::string plain = WithPlainCharacters(unknown.key); plain != unknown.key) {
    const std::vector<std::string> like =
        absl::StrContains(plain, '.') ? PathsLike(*unknown.type, plain) : std::vector<std::string>();
    return {no_field, FindField(*unknown.type, plain) != nullptr ? plain
                      : like.empty()                             ? ""
                                                                 : Written(like.front(), unknown.is_override)};
  }
  if (const std::string choice = ChoiceIn(unknown); !choice.empty()) {
    const std::string fields = FieldsBeside(unknown, choice);
    return {absl::StrCat(no_field, "; each choice is a field of its own"),
            unknown.is_override ? absl::StrCat(unknown.section, ".", choice, "={", fields, "}")
                                : absl::StrCat(choice, ": {", fields.empty() ? "..." : fields, "}")};
  }
  const std::vector<std::string> names = FieldNames(*unknown.type);
  if (const std::string pair = MeantByPair(unknown); !pair.empty()) {
    return {no_field, pair};
  }
  const std::string usual = UsualName(unknown.key);
  const std::vector<std::string> usual_paths = usual.empty() ? std::vector<std::string>() : LikelyPaths(unknown, usual);
  if (FindField(*unknown.type, usual) == nullptr && !usual_paths.empty()) {
    return {no_field + WhereAtTop(unknown, usual_paths.front()), Written(usual_paths.front(), unknown.is_override)};
  }
  if (usual.empty()) {
    if (auto of_other_programs = ExplainUsualField(unknown, no_field); of_other_programs.has_value()) {
      return *std::move(of_other_programs);
    }
  }
  if (const std::string advice = AdviceFor(unknown); !advice.empty()) {
    return {absl::StrCat(no_field, "; ", advice)};
  }
  if (const std::string meant = MeantInSection(unknown); !meant.empty()) {
    const bool is_further_in = absl::StrContains(meant, '.');
    return {no_field, Written(meant, unknown.is_override), is_further_in ? std::vector<std::string>() : names};
  }
  const std::vector<std::string> elsewhere = LikelyPaths(unknown, unknown.key);
  if (auto in_choice = ExplainInChoice(unknown, elsewhere); in_choice.has_value()) {
    return *std::move(in_choice);
  }
  if (elsewhere.empty()) {
    return {no_field, "", names};
  }
  const std::string here =
      unknown.section.empty()
          ? "at the top, but there is one further in"
          : absl::StrCat("of ", unknown.section,
                         absl::StrContains(elsewhere.front(), '.') ? ", but there is one elsewhere"
                                                                   : ", but there is one at the top level of the file");
  return {absl::StrCat(quoted, " is not a field ", here), WrittenWithValue(unknown, elsewhere.front()),
          elsewhere.size() > 1 ? elsewhere : std::vector<std::string>()};
}

}  // namespace ampd::client
