#include "client/cli/answers/typed_options.h"

#include <algorithm>
#include <string_view>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_words.h"

namespace ampd::client {
namespace {

using Words = std::vector<std::string>;

// Commands whose short options may have the value attached, and the letters of these options. Letters of options
// without a value are not here: in -it and -wA, each letter is an option.
constexpr struct {
  const char* commands;
  std::string_view letters;
} kShortOptions[] = {
    {"get|describe|delete|top|events|explain|wait|patch|scale|label|annotate|rollout|logs|exec|attach|cordon|drain",
     "nl"},
    {"uncordon|taint|edit|port-forward|cp|debug|expose|autoscale|set", "nl"},
    {"apply|create|replace|diff|kustomize", "nlf"},
    {"delete|describe|get", "f"},
    {"get|create|apply|patch|label|annotate", "o"},
    {"squeue", "tunwjpSoMAqRLiO"},
    {"scancel", "tunwspMAqR"},
    {"sbatch|srun|salloc", "NntJpwcGxCAaoeDMqLdb"},
    {"sacct", "jusSENAMoqrWg"},
    {"sinfo", "npoSOMit"},
    {"sprio", "juopM"},
    {"run", "Lswube"},
};

// Whether the word is a short option of the command with its value behind it.
bool HasValueAttached(const std::string& command, const std::string& word) {
  if (word.size() < 3 || word[0] != '-' || word[1] == '-' || word[2] == '=') {
    return false;
  }
  if (word[1] == 'f' && !LooksLikeFile(word.substr(2))) {
    return false;  // -fn is two options.
  }
  return std::any_of(std::begin(kShortOptions), std::end(kShortOptions), [&](const auto& row) {
    return IsOneOf(command, row.commands) && row.letters.find(word[1]) != std::string_view::npos;
  });
}

// Whether the option asks for what happens without it anyway, such as --x=false.
bool IsOff(const std::string& word) {
  return word.starts_with("--") && (word.ends_with("=false") || word == "--dry-run=none");
}

// Moves the options between the program and its command, with their values, behind the command.
void MoveBehindCommand(Words* words) {
  const size_t begin = words->size() > 1 && IsProgram(words->front()) ? 1 : 0;
  size_t at = begin;
  while (at + 1 < words->size() && (*words)[at].starts_with('-') && (*words)[at] != "--") {
    at += TakesNextWord((*words)[at]) && at + 2 < words->size() ? 2 : 1;
  }
  const auto first = words->begin() + static_cast<std::ptrdiff_t>(begin);
  const auto command = words->begin() + static_cast<std::ptrdiff_t>(at);
  std::rotate(first, command, command + 1);
}

}  // namespace

std::vector<std::string> PlainOptions(const std::vector<std::string>& typed) {
  Words words = typed;
  MoveBehindCommand(&words);
  const std::string command = words[words.size() > 1 && IsProgram(words[0]) ? 1 : 0];
  Words result;
  for (size_t i = 0; i < words.size(); ++i) {
    if (words[i] == "--") {
      result.insert(result.end(), words.begin() + static_cast<std::ptrdiff_t>(i), words.end());
      break;
    }
    if (IsOff(words[i])) {
      continue;
    }
    if (HasValueAttached(command, words[i])) {
      result.insert(result.end(), {words[i].substr(0, 2), words[i].substr(2)});
    } else {
      result.push_back(words[i]);
    }
  }
  return result;
}

}  // namespace ampd::client
