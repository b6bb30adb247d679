#include "client/render/shell_word.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"

namespace ampd::client {

std::string ShellWord(std::string_view text) {
  const std::string word(text);
  const bool is_plain = !word.empty() && std::all_of(word.begin(), word.end(), [](unsigned char c) {
    return absl::ascii_isalnum(c) || c >= 0x80 || absl::StrContains("_-./@%+=:,", c);
  });
  return is_plain ? word : absl::StrCat("'", absl::StrReplaceAll(word, {{"'", "'\\''"}}), "'");
}

std::string ShellPath(std::string_view path) {
  const std::string text(path);
  return ShellWord(text.starts_with('-') ? "./" + text : text);
}

}  // namespace ampd::client
