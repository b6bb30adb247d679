#include "client/jobfile/job_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/yaml/foreign_text.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/spec_filler.h"
#include "client/jobfile/spec_override.h"

namespace ampd::client {
namespace {

constexpr char kNameOption[] = "--name";

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
  FillSpec(*root, &file);
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
