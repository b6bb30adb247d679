#include "client/jobfile/override_path.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/yaml/yaml_scalar.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"
#include "client/render/shell_word.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr size_t kMaxOverrideDepth = 16;

// Returns what is wrong with one word of a path; empty if nothing is, and then `step` holds the word.
std::string ReadStep(const std::string& word, PathStep* step) {
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
std::string ReadWords(const std::string& path, std::vector<PathStep>* steps) {
  if (path.empty()) {
    return "has no path before the '='; an override is PATH=VALUE, for example train.steps=500";
  }
  if (path.front() == '.' || path.back() == '.') {
    return absl::StrCat("the path ", path.front() == '.' ? "begins" : "ends",
                        " with a dot; dots stand between names: ", "train.steps");
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

// Returns the path with a dot in place of each pair of brackets around the name of a field: "train.steps" for
// "train[steps]" or "train['steps']". Leaves the index of a list as it is.
std::string WithDots(const std::string& path, const Descriptor& type) {
  std::string dotted;
  const Descriptor* level = &type;
  bool is_list = false;  // whether the last word is the name of a list
  for (size_t at = 0; at < path.size();) {
    const bool is_bracket = path[at] == '[';
    const size_t end = is_bracket ? path.find(']', at) : std::min(path.find_first_of(".[", at), path.size());
    if (end == std::string::npos) {
      return path;
    }
    std::string word = path.substr(at + (is_bracket ? 1 : 0), end - at - (is_bracket ? 1 : 0));
    if (is_bracket && (is_list || IsNumber(word) || word.empty())) {
      absl::StrAppend(&dotted, "[", word, "]");
      is_list = false;  // An item has at most fields.
    } else {
      const bool is_quoted =
          is_bracket && word.size() > 2 && word.front() == word.back() && (word.front() == '"' || word.front() == '\'');
      word = is_quoted ? word.substr(1, word.size() - 2) : word;
      absl::StrAppend(&dotted, dotted.empty() ? "" : ".", word);
      is_list = IsList(level, word);
      level = TypeOfField(level, word);
    }
    at = end + (is_bracket ? 1 : 0);
    at += at < path.size() && path[at] == '.' ? 1 : 0;
  }
  return dotted;
}

}  // namespace

std::optional<PathRefusal> ExplainDottedLabel(const std::string& path, const std::string& value) {
  constexpr std::string_view kLabels = "labels.";
  const std::string key =
      absl::StrReplaceAll(path.substr(std::min(path.size(), kLabels.size())), {{"\"", ""}, {"'", ""}, {"\\", ""}});
  const bool is_dotted =
      path.starts_with(kLabels) && absl::StrContains(key, ".") && key.front() != '.' && key.back() != '.';
  const bool is_shown = !value.empty() && value.size() <= kMaxShownText;
  const std::string mapping =
      absl::StrCat("labels={", YamlScalar(key), ": ", is_shown ? YamlScalar(value) : "VALUE", "}");
  return is_dotted ? std::optional(PathRefusal{absl::StrCat(
                         "a label whose key has a dot is set by a mapping, which replaces all labels: --set ",
                         ShellWord(mapping))})
                   : std::nullopt;
}

std::optional<PathRefusal> ReadPath(const std::string& path, const Descriptor& type, std::vector<PathStep>* steps) {
  if (const std::string dotted = absl::StrContains(path, "[") ? WithDots(path, type) : path; dotted != path) {
    std::vector<PathStep> meant;
    std::string wrong = ReadWords(dotted, &meant);
    return wrong.empty() ? PathRefusal{"brackets hold the index of an item; a field follows a dot", dotted}
                         : PathRefusal{std::move(wrong)};
  }
  std::string wrong = ReadWords(path, steps);
  return wrong.empty() ? std::nullopt : std::optional(PathRefusal{std::move(wrong)});
}

const Descriptor* TypeOfField(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* field = type == nullptr ? nullptr : FindField(*type, name);
  const bool is_message = field != nullptr && field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && !field->is_map();
  return is_message ? field->message_type() : nullptr;
}

std::string WithIndex(const std::vector<PathStep>& steps, size_t at) {
  std::string path;
  for (size_t i = 0; i < steps.size(); ++i) {
    const PathStep& step = steps[i];
    absl::StrAppend(&path, i == at ? absl::StrCat("[", step.name, "]") : absl::StrCat(i == 0 ? "" : ".", step.name),
                    step.index.has_value() ? absl::StrCat("[", *step.index, "]") : "");
  }
  return path;
}

bool IsList(const Descriptor* type, const std::string& name) {
  const FieldDescriptor* const field = type == nullptr ? nullptr : FindField(*type, name);
  return field != nullptr && field->is_repeated() && !field->is_map();
}

bool IsNumber(const std::string& word) {
  return !word.empty() && std::all_of(word.begin(), word.end(), absl::ascii_isdigit);
}

}  // namespace ampd::client
