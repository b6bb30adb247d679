#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// Characters that look like ASCII, but are not: Cyrillic letters, full-width digits, spaces of other widths, curly
// quotes, dashes. An editor, a web page or a chat puts them in place of what was typed.
namespace ampd {

// A character of a text that looks like ASCII but is not, and its position.
struct LookAlike {
  int line = 0;           // from 1; 0 in a text that has no lines, such as the value of an option
  int column = 0;         // from 1, in bytes, as in SourceMark
  int shown_column = 0;   // from 1, in characters, as an editor counts them
  std::string character;  // its bytes
  std::string code;       // "U+0430"
  std::string name;       // "Cyrillic small letter a"
  std::string plain;      // the ASCII characters that it looks like; empty: nobody sees it
};

// Returns the first 1000 characters of the text that look like ASCII but are not, in order. In a comment, or in a value
// that is free text, such characters may be intended.
std::vector<LookAlike> FindLookAlikes(std::string_view text);

// Returns a message that says which character it is and what to type: "the character in line 1, column 2 is U+0430
// (Cyrillic small letter a), which looks like a; type a plain a". If the line is 0, quotes the character instead of its
// position.
std::string ExplainLookAlike(const LookAlike& one);

// Returns the text with each look-alike replaced by the ASCII characters that it looks like.
std::string WithPlainCharacters(std::string_view text);

// Whether the character looks like one that has a meaning in YAML, such as a quote or a space.
bool IsOfSyntax(const LookAlike& one);

}  // namespace ampd
