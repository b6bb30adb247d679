#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_words.h"
#include "client/cli/answers/tables/foreign_word_tables.h"

namespace ampd::client {
namespace {

// Returns all wordings of a row, in which a|b stands for either word: {"get x", "show x"} for "get|show x".
std::vector<std::string> Wordings(const char* words) {
  std::vector<std::string> wordings = {""};
  for (const absl::string_view place : absl::StrSplit(words, ' ')) {
    std::vector<std::string> longer;
    for (const std::string& before : wordings) {
      for (const absl::string_view word : absl::StrSplit(place, '|')) {
        longer.push_back(absl::StrCat(before, before.empty() ? "" : " ", word));
      }
    }
    wordings = std::move(longer);
  }
  return wordings;
}

std::vector<ForeignWord> Expanded(std::initializer_list<std::span<const ForeignRow>> tables) {
  std::vector<ForeignWord> words;
  for (const std::span<const ForeignRow> table : tables) {
    for (const ForeignRow& row : table) {
      for (std::string& wording : Wordings(row.words)) {
        words.push_back({std::move(wording), row.words, row.answer.purpose, row.answer.command});
      }
    }
  }
  return words;
}

}  // namespace

std::span<const ForeignWord> ForeignWords() {
  static const auto* const kWords = new std::vector<ForeignWord>(
      Expanded({KubectlRows(), SlurmRows(), GhRows(), CommonVerbRows(), ToolRows(), GroupRows()}));
  return *kWords;
}

std::span<const ForeignWord> NamesAfterGroups() {
  static const auto* const kWords = new std::vector<ForeignWord>(Expanded({NameRows()}));
  return *kWords;
}

}  // namespace ampd::client
