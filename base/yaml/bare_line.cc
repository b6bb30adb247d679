#include "base/yaml/bare_line.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "base/text.h"

namespace ampd {
namespace {

constexpr size_t kMaxShown = 40;
constexpr char kNotYaml[] = "not YAML: ";

bool IsOfName(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '-' || c == '.'; }

// Returns the length of the name at the beginning of the line; 0 if the line does not begin with a letter or '_'.
size_t NameLength(std::string_view line) {
  if (line.empty() || (!absl::ascii_isalpha(static_cast<unsigned char>(line[0])) && line[0] != '_')) {
    return 0;
  }
  return static_cast<size_t>(std::find_if_not(line.begin(), line.end(), IsOfName) - line.begin());
}

std::string_view Stripped(std::string_view text) {
  const absl::string_view stripped = absl::StripAsciiWhitespace(absl::string_view(text.data(), text.size()));
  return {stripped.data(), stripped.size()};
}

size_t IndentOf(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// The parts of a line such as "steps:2000": its name, the separator ':' or '=' behind it, and the rest. Without such a
// separator, `separator` is ' ' and the rest is what follows the name.
struct Parts {
  std::string_view name;
  char separator = ' ';
  std::string_view rest;
};

Parts PartsOf(std::string_view line) {
  const size_t length = NameLength(line);
  const std::string_view rest = Stripped(line.substr(length));
  const bool has_separator = !rest.empty() && (rest[0] == ':' || rest[0] == '=');
  return {line.substr(0, length), has_separator ? rest[0] : ' ', has_separator ? Stripped(rest.substr(1)) : rest};
}

bool IsListItem(std::string_view text) { return text == "-" || text.starts_with("- "); }

// Whether the text begins with the '-' of a list item whose space is missing: "-8".
bool LacksSpaceAfterDash(std::string_view text) {
  return text.size() > 1 && text[0] == '-' && text[1] != ' ' && text[1] != '-';
}

// Whether the text, which has no comment, is "name: value" or "name:".
bool IsField(std::string_view text) {
  return !LacksSpaceAfterDash(text) && (text.ends_with(':') || text.find(": ") != std::string_view::npos ||
                                        text.find(":\t") != std::string_view::npos);
}

// Whether the text may have been meant as a field or a list item, but is neither.
bool IsBare(std::string_view text) {
  if (text.empty() || IsField(text) || IsListItem(text) || text.starts_with("---") || text.starts_with("...")) {
    return false;
  }
  const Parts parts = PartsOf(text);
  const bool is_assignment = !parts.name.empty() && parts.separator != ' ';
  return is_assignment || text[0] == '!' || LacksSpaceAfterDash(text) ||
         text.find_first_of("\"'[]{}") == std::string_view::npos;
}

// Returns the index of the last line with text before line `index`; nothing if there is none.
std::optional<size_t> LineBefore(const std::vector<std::string>& lines, size_t index) {
  while (index > 0) {
    --index;
    if (!WithoutComment(lines[index]).empty()) {
      return index;
    }
  }
  return std::nullopt;
}

// Whether the next lines may be lines of a scalar that begins on this line: "prompt: |", "prompt: the first words" or
// "match: >-".
bool MayBeginText(std::string_view text) {
  const std::string_view last = text.substr(text.find_last_of(' ') + 1);  // npos + 1 is 0
  return last.starts_with('|') || last.starts_with('>') || !text.ends_with(':');
}

// Whether the bare line `index` stands where a field or a list item must be: at the top level, below a field or list
// item of the same section, or as the first line of a section. Returns false if the line may belong to a scalar of
// several lines. `next_indent`: the indentation of the line at which the parser failed. A bare line is the first line
// of a section only if that line is indented at least as much.
bool StandsForField(const std::vector<std::string>& lines, size_t index, size_t next_indent) {
  const size_t indent = IndentOf(lines[index]);
  bool is_beside_field = false;
  for (std::optional<size_t> at = LineBefore(lines, index); at.has_value(); at = LineBefore(lines, *at)) {
    const size_t its_indent = IndentOf(lines[*at]);
    const std::string_view text = WithoutComment(lines[*at]);
    if (its_indent > indent) {
      continue;
    }
    if (its_indent == indent) {
      is_beside_field = is_beside_field || IsField(text) || IsListItem(text);
      continue;
    }
    if (IsListItem(text)) {  // Its first field is in the same line: "- match: head".
      const std::string_view item = text.substr(std::min<size_t>(2, text.size()));
      const bool is_beside_item = its_indent + text.size() - Stripped(item).size() == indent && IsField(Stripped(item));
      return is_beside_field || is_beside_item;
    }
    return !MayBeginText(text) && (is_beside_field || next_indent >= indent);
  }
  return true;  // The line is at the top level.
}

// Whether a bracket is open behind the first `num_lines` lines. Brackets in quotes count too, so this is a guess.
bool IsInBrackets(const std::vector<std::string>& lines, size_t num_lines) {
  int open = 0;
  for (size_t i = 0; i < num_lines; ++i) {
    for (const char c : WithoutComment(lines[i])) {
      open += c == '{' || c == '[' ? 1 : 0;
      open -= (c == '}' || c == ']') && open > 0 ? 1 : 0;
    }
  }
  return open > 0;
}

// Reads a value in quotes that begins at `at` of the line. Returns the offset behind its closing quote; npos if the
// quote is not closed in this line.
size_t EndOfQuotes(std::string_view line, size_t at) {
  const char quote = line[at];
  for (size_t i = at + 1; i < line.size(); ++i) {
    const bool is_doubled = quote == '\'' && line[i] == quote && i + 1 < line.size() && line[i + 1] == quote;
    if (is_doubled || (quote == '"' && line[i] == '\\')) {
      ++i;
    } else if (line[i] == quote) {
      return i + 1;
    }
  }
  return std::string_view::npos;
}

}  // namespace

std::string_view WithoutComment(std::string_view line) {
  for (size_t at = 0; at < line.size(); ++at) {
    if (line[at] == '#' && (at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t')) {
      return Stripped(line.substr(0, at));
    }
  }
  return Stripped(line);
}

std::string ExplainBareLine(std::string_view line, const YamlKind& kind) {
  if (line.starts_with('!')) {
    const std::string tag = Shortened(line.substr(0, line.find(' ')), kMaxShown);
    return line.starts_with("!include") ? absl::StrCat("'", tag, "' is not supported: ", kind.files,
                                                       " include no other files; write the fields of that file here")
                                        : absl::StrCat(kNotYaml, "a line that begins with '!' is a tag, which ",
                                                       kind.files, " do not have; remove it");
  }
  if (LacksSpaceAfterDash(line)) {
    return absl::StrCat("a '-' needs a space after it: - ", Shortened(line.substr(1), kMaxShown));
  }
  if (line.starts_with("~~~")) {
    return absl::StrCat(kNotYaml, "'~~~' begins or ends a code block of Markdown; remove the line");
  }
  const Parts parts = PartsOf(line);
  const std::string name = Shortened(parts.name, kMaxShown);
  const std::string rest = Shortened(parts.rest, kMaxShown);
  if (!name.empty() && parts.separator == ':') {
    return absl::StrCat("a ':' needs a space after it: ", name, ": ", rest);
  }
  const bool is_word = parts.name.size() == line.size() ||
                       std::string_view(" \t=").find(line[parts.name.size()]) != std::string_view::npos;
  const bool is_sentence = parts.separator == ' ' && parts.rest.find(' ') != std::string_view::npos;
  if (name.empty() || !is_word || is_sentence) {
    return absl::StrCat(kNotYaml,
                        "the line has no ':'; a field is written as NAME: VALUE, and a comment begins with #");
  }
  return absl::StrCat(kNotYaml, "the line has no ':'; write ", name, ":", rest.empty() ? "" : " ", rest);
}

std::optional<Problem> FindBareLine(const std::vector<std::string>& lines, size_t number, const std::string& source,
                                    const YamlKind& kind) {
  if (number == 0 || number > lines.size()) {
    return std::nullopt;
  }
  const auto is_bare = [&lines](size_t index) { return IsBare(WithoutComment(lines[index])); };
  const size_t last = number - 1;
  std::optional<size_t> found = is_bare(last) ? std::optional(last) : LineBefore(lines, last);
  const size_t next_indent = IndentOf(lines[last]);
  if (!found.has_value() || !is_bare(*found) || !StandsForField(lines, *found, next_indent)) {
    return std::nullopt;
  }
  for (std::optional<size_t> before = LineBefore(lines, *found);
       before.has_value() && is_bare(*before) && IndentOf(lines[*before]) == IndentOf(lines[*found]);
       before = LineBefore(lines, *found)) {
    found = before;
  }
  if (IsInBrackets(lines, *found)) {
    return std::nullopt;
  }
  return Problem{{source, static_cast<int>(*found) + 1, static_cast<int>(IndentOf(lines[*found])) + 1},
                 "",
                 ExplainBareLine(WithoutComment(lines[*found]), kind)};
}

std::optional<Problem> FindTextAfterQuote(const std::vector<std::string>& lines, const std::string& source) {
  for (size_t i = 0; i < lines.size(); ++i) {
    const std::string_view line = lines[i];
    char before = ':';  // The last character that is not a blank.
    for (size_t at = 0; at < line.size(); ++at) {
      const char c = line[at];
      const bool is_after_blank = at == 0 || line[at - 1] == ' ' || line[at - 1] == '\t';
      if (c == '#' && is_after_blank) {
        break;
      }
      const bool begins_value = std::string_view(":,-[{").find(before) != std::string_view::npos;
      if ((c == '"' || c == '\'') && begins_value) {
        const size_t end = EndOfQuotes(line, at);
        const size_t next = end == std::string_view::npos ? end : line.find_first_not_of(" \t\r", end);
        if (next == std::string_view::npos) {
          break;
        }
        const bool is_comment = line[next] == '#' && next > end;
        if (!is_comment && std::string_view(",]}:").find(line[next]) == std::string_view::npos) {
          const char* const advice = c == '\'' ? "; within single quotes, write '' for a '" : "";
          return Problem{{source, static_cast<int>(i) + 1, static_cast<int>(next) + 1},
                         "",
                         absl::StrCat(kNotYaml, "there is text after the closing quote: ",
                                      Shortened(Stripped(line.substr(next)), kMaxShown),
                                      "; put all of the value in one pair of quotes, or remove the text", advice)};
        }
        at = end - 1;
      }
      before = c == ' ' || c == '\t' ? before : line[at];
    }
  }
  return std::nullopt;
}

}  // namespace ampd
