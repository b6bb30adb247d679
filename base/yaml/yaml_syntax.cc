#include "base/yaml/yaml_syntax.h"

#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/yaml/bare_line.h"
#include "base/yaml/look_alike.h"
#include "base/yaml/misplaced_colon.h"

namespace ampd {
namespace {

using Lines = std::vector<std::string>;

constexpr char kQuoteIt[] = "; put the value in quotes";

Problem ProblemAt(SourceMark mark, std::string message) { return {std::move(mark), "", std::move(message), "", {}}; }

// Returns the name of the encoding if the text is UTF-16 or UTF-32; empty if it is neither.
std::string WideEncoding(std::string_view text) {
  using namespace std::string_view_literals;
  if (text.starts_with("\xFF\xFE\0\0"sv) || text.starts_with("\0\0\xFE\xFF"sv)) {
    return "UTF-32";
  }
  // Without a byte order mark, a zero beside the first ASCII character shows that each character has two bytes.
  const bool has_zero = text.size() >= 2 && (text[0] == '\0') != (text[1] == '\0');
  return text.starts_with("\xFF\xFE") || text.starts_with("\xFE\xFF") || has_zero ? "UTF-16" : "";
}

// If the character after the line's first ':' looks like a space but is none, returns its code, such as "U+00A0".
// Otherwise returns an empty string.
std::string FalseSpaceAfterColon(std::string_view line) {
  const size_t colon = line.find(':');
  if (colon == std::string_view::npos || colon + 1 >= line.size()) {
    return "";
  }
  const std::string_view rest = line.substr(colon + 1);
  const size_t num_bytes = Utf8CharacterBytes(rest, 0);
  const std::string escaped = num_bytes > 1 ? OneLine(rest.substr(0, num_bytes)) : "";
  return absl::StartsWith(escaped, "\\u") ? absl::StrCat("U+", absl::AsciiStrToUpper(escaped.substr(2))) : "";
}

bool IsControl(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return (byte < 0x20 && c != '\n' && c != '\r' && c != '\t') || byte == 0x7F;
}

// Returns the problem if one of the first `num_lines` lines is indented by a tab.
std::optional<Problem> FindTab(const Lines& lines, size_t num_lines, const std::string& source) {
  for (size_t i = 0; i < num_lines; ++i) {
    const size_t indent = lines[i].find_first_not_of(" \t");
    const size_t tab = lines[i].find('\t');
    if (indent != std::string::npos && tab < indent) {
      return ProblemAt({source, static_cast<int>(i) + 1, static_cast<int>(tab) + 1},
                       "indented by a tab; YAML allows only spaces");
    }
  }
  return std::nullopt;
}

// Returns the place of the innermost bracket that is opened and not closed in the first `num_lines` lines; nothing if
// there is none. Opening brackets count only where a value may begin.
std::optional<SourceMark> FindUnclosed(const Lines& lines, size_t num_lines, const std::string& source) {
  std::vector<SourceMark> open;
  char quote = '\0';
  for (size_t i = 0; i < num_lines; ++i) {
    char before = ':';  // The last character that is not a blank.
    for (size_t at = 0; at < lines[i].size(); ++at) {
      const char c = lines[i][at];
      const bool is_after_blank = at == 0 || lines[i][at - 1] == ' ';
      const bool begins_value = std::string_view(":,-[{").find(before) != std::string_view::npos;
      if (quote != '\0') {
        at += quote == '"' && c == '\\' ? 1 : 0;
        quote = c == quote ? '\0' : quote;
      } else if (c == '#' && is_after_blank) {
        break;
      } else if ((c == '"' || c == '\'') && begins_value) {
        quote = c;
      } else if ((c == '{' || c == '[') && begins_value) {
        open.push_back({source, static_cast<int>(i) + 1, static_cast<int>(at) + 1});
      } else if ((c == '}' || c == ']') && !open.empty()) {
        open.pop_back();
      }
      before = c == ' ' ? before : c;
    }
  }
  return open.empty() ? std::nullopt : std::optional(open.back());
}

// Finds characters on line `number`, and on the line before it, that look like characters of YAML's syntax but are not.
// Returns the last of them or, if lines before it have the same character, the first one in these lines.
std::optional<LookAlike> FalseSyntaxNear(const std::vector<LookAlike>& look_alikes, int number) {
  const auto last = std::find_if(look_alikes.rbegin(), look_alikes.rend(), [number](const LookAlike& one) {
    return IsOfSyntax(one) && (one.line == number || one.line == number - 1);
  });
  auto first = last;
  for (auto one = last; one != look_alikes.rend() && one->line >= first->line - 1; ++one) {
    first = one->code == first->code ? one : first;
  }
  return first == look_alikes.rend() ? std::nullopt : std::optional(*first);
}

// Explains the character, and says how many more there are of it.
std::string ExplainFalseSyntax(const LookAlike& look_alike, const std::vector<LookAlike>& look_alikes) {
  const auto num_same = std::count_if(look_alikes.begin(), look_alikes.end(),
                                      [&](const LookAlike& one) { return one.code == look_alike.code; });
  return absl::StrCat(ExplainLookAlike(look_alike),
                      num_same > 1 ? absl::StrCat("; the file has ", num_same - 1, " more of this character") : "");
}

// Returns the line that led to a message of yaml-cpp about the layout at `mark`; nothing if there is none.
std::optional<Problem> FindCause(const Lines& lines, const SourceMark& mark, const YamlKind& kind,
                                 const std::string& message) {
  namespace errors = YAML::ErrorMsg;
  if (message != errors::END_OF_MAP && message != errors::END_OF_SEQ && message != errors::MAP_VALUE &&
      message != errors::MAP_KEY) {
    return std::nullopt;
  }
  auto after_quote = FindTextAfterQuote(lines, mark.source);
  return after_quote.has_value() && after_quote->mark.line == mark.line
             ? std::move(after_quote)
             : FindBareLine(lines, static_cast<size_t>(std::max(0, mark.line)), mark.source, kind);
}

std::string CharacterAt(const Lines& lines, const SourceMark& mark) {
  const bool is_inside = mark.line >= 1 && static_cast<size_t>(mark.line) <= lines.size() && mark.column >= 1 &&
                         static_cast<size_t>(mark.column) <= lines[mark.line - 1].size();
  return is_inside ? lines[mark.line - 1].substr(mark.column - 1, 1) : "";
}

// Explains a message of yaml-cpp that has no variable part. Returns "" for any other message.
std::string ExplainedMessage(const std::string& message, const YamlKind& kind) {
  namespace errors = YAML::ErrorMsg;
  const std::string tag = absl::StrCat("a value that begins with '!' is a tag, which ", kind.files, " do not have");
  static constexpr char kAlias[] = "a value that begins with '*' is an alias, which needs a name of letters after it";
  static constexpr char kAnchor[] = "a value that begins with '&' is an anchor, which needs a name of letters after it";
  const std::string directive =
      absl::StrCat("a line that begins with '%' is a directive, which ", kind.files, " do not have");
  const std::pair<const char*, std::string> words[] = {
      {errors::END_OF_MAP, "indented unlike its neighbours; the fields of a mapping must begin in the same column"},
      {errors::END_OF_SEQ, "indented unlike its neighbours; the items of a list must begin in the same column"},
      {errors::END_OF_MAP_FLOW, "a '{' is not closed, or a ',' is missing"},
      {errors::END_OF_SEQ_FLOW, "a '[' is not closed, or a ',' is missing"},
      {errors::FLOW_END, "a '}' or ']' closes nothing, or not the bracket that was opened last"},
      {errors::MAP_VALUE, "a ':' is not allowed here; is a value with a ':' not quoted, or is the indentation wrong?"},
      {errors::MAP_KEY, "a key is not allowed here; is the indentation wrong?"},
      {errors::BLOCK_ENTRY,
       "a '- ' is not allowed here; the items of a list stand in lines of their own, below its key"},
      {errors::UNKNOWN_ANCHOR,
       "an alias refers to an anchor that is not defined before it; a text that begins with '*' needs quotes"},
      {errors::ALIAS_NOT_FOUND, absl::StrCat(kAlias, kQuoteIt)},
      {errors::CHAR_IN_ALIAS, absl::StrCat(kAlias, kQuoteIt)},
      {errors::ANCHOR_NOT_FOUND, absl::StrCat(kAnchor, kQuoteIt)},
      {errors::CHAR_IN_ANCHOR, absl::StrCat(kAnchor, kQuoteIt)},
      {errors::MULTIPLE_ANCHORS, "a value has two anchors ('&'); it can have one"},
      {errors::MULTIPLE_TAGS, absl::StrCat(tag, "; remove it")},
      {errors::ALIAS_CONTENT, "an alias ('*') can have no anchor, tag or value of its own"},
      {errors::CHAR_IN_TAG_HANDLE, absl::StrCat(tag, kQuoteIt)},
      {errors::TAG_WITH_NO_SUFFIX, absl::StrCat(tag, kQuoteIt)},
      {errors::END_OF_VERBATIM_TAG, absl::StrCat(tag, kQuoteIt)},
      {errors::YAML_DIRECTIVE_ARGS, absl::StrCat(directive, "; remove it")},
      {errors::YAML_MAJOR_VERSION, absl::StrCat(directive, "; remove it")},
      {errors::REPEATED_YAML_DIRECTIVE, absl::StrCat(directive, "; remove it")},
      {errors::TAG_DIRECTIVE_ARGS, absl::StrCat(directive, "; remove it")},
      {errors::REPEATED_TAG_DIRECTIVE, absl::StrCat(directive, "; remove it")},
      {errors::INVALID_HEX,
       "a '\\x', '\\u' or '\\U' in double quotes needs 2, 4 or 8 hexadecimal digits; in single quotes a "
       "backslash has no meaning"},
      {errors::DOC_IN_SCALAR, "a line within quotes begins with '---' or '...'; is a closing quote missing?"},
      {errors::EOF_IN_SCALAR, "a quote is not closed"},
      {errors::TAB_IN_INDENTATION, "indented by a tab; YAML allows only spaces"},
      {errors::ZERO_INDENT_IN_BLOCK, "the number after '|' or '>' must be from 1 to 9"},
      {errors::CHAR_IN_BLOCK, "the line must end after '|' or '>'"}};
  const auto* const found = std::find_if(std::begin(words), std::end(words),
                                         [&message](const auto& entry) { return message == entry.first; });
  return found == std::end(words) ? "" : found->second;
}

// Explains any message of yaml-cpp, also one that ends with a part of the text or depends on the text at `mark`.
std::string ExplainedByText(const Lines& lines, const SourceMark& mark, const YamlKind& kind,
                            const std::string& message) {
  namespace errors = YAML::ErrorMsg;
  if (absl::StartsWith(message, errors::INVALID_ESCAPE)) {
    return absl::StrCat("'\\", message.substr(std::string(errors::INVALID_ESCAPE).size()),
                        "' is not an escape that double quotes allow; in single quotes a backslash has no meaning");
  }
  if (absl::StartsWith(message, errors::INVALID_UNICODE)) {
    return "an escape in double quotes stands for no character; in single quotes a backslash has no meaning";
  }
  if (absl::StartsWith(message, errors::YAML_VERSION)) {
    return ExplainedMessage(errors::YAML_MAJOR_VERSION, kind);
  }
  const std::string character = CharacterAt(lines, mark);
  if (message == errors::UNKNOWN_TOKEN && character == "`" && absl::StrContains(lines[mark.line - 1], "```")) {
    return "'```' begins or ends a code block of Markdown; remove the line";
  }
  if (message == errors::UNKNOWN_TOKEN && !character.empty()) {
    return absl::StrCat("a value cannot begin with '", character, "'", kQuoteIt);
  }
  if (const std::string colon = message == errors::MAP_VALUE && mark.line > 0
                                    ? ExplainMisplacedColon(lines, static_cast<size_t>(mark.line))
                                    : "";
      !colon.empty()) {
    return colon;
  }
  const std::string known = ExplainedMessage(message, kind);
  return known.empty() ? "this line cannot be read; check its quotes, brackets and indentation" : known;
}

}  // namespace

SourceMark MarkAt(std::string_view text, size_t offset, const std::string& source) {
  const std::string_view before = text.substr(0, offset);
  const size_t line_start = before.rfind('\n') + 1;  // npos + 1 is 0
  return {source, static_cast<int>(std::count(before.begin(), before.end(), '\n')) + 1,
          static_cast<int>(offset - line_start) + 1};
}

bool IsWideText(std::string_view text) { return !WideEncoding(text).empty(); }

std::optional<Problem> FindEncodingProblem(std::string_view text, const std::string& source) {
  if (const std::string encoding = WideEncoding(text); !encoding.empty()) {
    return ProblemAt({source, 0, 0}, absl::StrCat("the text is ", encoding, "; save it as UTF-8"));
  }
  if (const auto invalid = FirstInvalidUtf8(text); invalid.has_value()) {
    return ProblemAt(MarkAt(text, *invalid, source), absl::StrCat(NotUtf8(text, *invalid), "; save the text as UTF-8"));
  }
  for (size_t at = 0; at < text.size(); ++at) {
    if (text[at] == '\r' && text.substr(at, 2) != "\r\n") {
      return ProblemAt(MarkAt(text, at, source), absl::StrCat("the carriage return at offset ", at,
                                                              " is not followed by a line feed; save the "
                                                              "text with the line ends of Unix or Windows"));
    }
    if (IsControl(text[at])) {
      const std::string digits = absl::StrCat(absl::Hex(text[at], absl::kZeroPad2));
      return ProblemAt(
          MarkAt(text, at, source),
          absl::StrCat("the control character U+00", absl::AsciiStrToUpper(digits), " at offset ", at,
                       " is not allowed in YAML; remove it, or write it as '\\x", digits, "' in double quotes"));
    }
  }
  return std::nullopt;
}

Problem ExplainSyntax(std::string_view text, const SourceMark& mark, const YamlKind& kind, const std::string& message) {
  const Lines lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  const size_t last = std::min(lines.size(), static_cast<size_t>(std::max(0, mark.line)));
  if (auto tab = FindTab(lines, last, mark.source); tab.has_value()) {
    return *std::move(tab);
  }
  for (size_t i = last; i > 0 && i + 2 > last; --i) {
    const int column = static_cast<int>(lines[i - 1].find(':')) + 1;
    if (const std::string space = FalseSpaceAfterColon(lines[i - 1]); !space.empty()) {
      return ProblemAt(
          {mark.source, static_cast<int>(i), column + 1},
          absl::StrCat("the character ", space, " after the ':' looks like a space but is none; type a plain space"));
    }
  }
  const bool is_of_flow = message == YAML::ErrorMsg::END_OF_MAP_FLOW || message == YAML::ErrorMsg::END_OF_SEQ_FLOW;
  if (auto text_after = is_of_flow ? FindTextAfterQuote(lines, mark.source) : std::nullopt; text_after.has_value()) {
    return *std::move(text_after);
  }
  const bool is_in_brackets = is_of_flow || message == YAML::ErrorMsg::MAP_VALUE || message == YAML::ErrorMsg::MAP_KEY;
  const std::optional<SourceMark> open = is_in_brackets ? FindUnclosed(lines, last, mark.source) : std::nullopt;
  if (open.has_value() && open->line < mark.line) {
    return ProblemAt(*open, absl::StrCat("not YAML: the '", CharacterAt(lines, *open),
                                         "' is not closed, or a ',' is "
                                         "missing"));
  }
  const std::vector<LookAlike> look_alikes = FindLookAlikes(text);
  const std::optional<LookAlike> look_alike = FalseSyntaxNear(look_alikes, mark.line);
  if (look_alike.has_value() && look_alike->plain == ":") {
    return ProblemAt({mark.source, look_alike->line, look_alike->shown_column},
                     "not YAML: " + ExplainFalseSyntax(*look_alike, look_alikes));
  }
  if (auto cause = FindCause(lines, mark, kind, message); cause.has_value()) {
    const std::optional<LookAlike> near = FalseSyntaxNear(look_alikes, cause->mark.line);
    if (near.has_value() && near->line == cause->mark.line) {
      return ProblemAt({mark.source, near->line, near->shown_column},
                       "not YAML: " + ExplainFalseSyntax(*near, look_alikes));
    }
    return *std::move(cause);
  }
  return ProblemAt(mark,
                   absl::StrCat("not YAML: ", ExplainedByText(lines, mark, kind, message),
                                look_alike.has_value() ? "; " + ExplainFalseSyntax(*look_alike, look_alikes) : ""));
}

}  // namespace ampd
