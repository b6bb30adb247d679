#include "client/cli/answers/foreign_verbs.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/str_split.h"
#include "client/cli/answers/command_words.h"

namespace ampd::client {
namespace {

// Verbs of other programs, each with the verbs of ampctl that may mean the same, the most likely first.
constexpr struct {
  const char* foreign;
  const char* own;
} kVerbs[] = {
    {"get describe view info status inspect details stat cat print", "show inspect list"},
    {"current", "show"},
    {"all ls ps queue index search find", "list"},
    {"rm remove del delete destroy drop prune purge unset", "delete remove"},
    {"get pull fetch save cp copy", "download"},
    {"push put send", "upload"},
    {"create new add set register", "add submit upload"},
    {"start run apply launch enqueue schedule", "submit"},
    {"switch select activate choose default", "use"},
    {"check validate test lint verify", "verify inspect"},
    {"convert dump save", "export"},
    {"stop kill abort terminate end close", "cancel"},
    {"suspend hold freeze", "pause"},
    {"continue unpause release start", "resume"},
    {"restart requeue restore load", "retry"},
    {"rerun copy cp duplicate", "clone"},
    {"attach follow monitor plot", "watch"},
    {"tail log output", "logs"},
    {"stats metrics loss history curve", "points"},
    {"why", "explain"},
    {"edit patch set", "update"},
    {"trace prof", "profile"},
    {"set-scale loss-scale", "scale"},
    {"grads gradient histogram", "gradients"},
    {"infer inference eval evaluate", "predict"},
    {"cordon disable", "drain"},
    {"uncordon enable resume", "undrain"},
};

// Returns the command of `group` that has this name; null if there is none.
const CLI::App* Child(const CLI::App& group, const std::string& name) {
  std::string unknown;
  const CLI::App* const found = FindCommand(&group, {name}, &unknown);
  return unknown.empty() ? found : nullptr;
}

}  // namespace

std::vector<const CLI::App*> CommandsNamed(const CLI::App& root, const std::string& verb) {
  std::vector<const CLI::App*> found;
  for (const CLI::App* app : SubcommandsOf(root)) {
    if (SubcommandsOf(*app).empty() ? app->check_name(verb) : Child(*app, verb) != nullptr) {
      found.push_back(SubcommandsOf(*app).empty() ? app : Child(*app, verb));
    }
  }
  return found;
}

const CLI::App* CommandForForeignVerb(const CLI::App& group, const std::string& verb) {
  for (const auto& [foreign, own] : kVerbs) {
    const std::vector<std::string> words = absl::StrSplit(foreign, ' ');
    if (std::find(words.begin(), words.end(), verb) == words.end()) {
      continue;
    }
    const std::vector<std::string> names = absl::StrSplit(own, ' ');
    for (const std::string& name : names) {
      if (const CLI::App* const command = Child(group, name); command != nullptr) {
        return command;
      }
    }
  }
  return nullptr;
}

bool IsVerb(const std::string& word) {
  constexpr std::string_view kOthers[] = {"update", "scale", "label", "annotate", "expose", "autoscale"};
  return IsReadingVerb(word) || std::find(std::begin(kOthers), std::end(kOthers), word) != std::end(kOthers) ||
         std::any_of(std::begin(kVerbs), std::end(kVerbs), [&word](const auto& row) {
           const std::vector<std::string> words = absl::StrSplit(row.foreign, ' ');
           return std::find(words.begin(), words.end(), word) != words.end();
         });
}

bool IsReadingVerb(const std::string& verb) {
  constexpr std::string_view kVerbsThatRead[] = {"get",  "list",  "ls",    "show", "describe",
                                                 "view", "print", "watch", "tail"};
  return std::find(std::begin(kVerbsThatRead), std::end(kVerbsThatRead), verb) != std::end(kVerbsThatRead);
}

}  // namespace ampd::client
