#include "base/yaml/foreign_text.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "base/yaml/bare_line.h"
#include "base/yaml/yaml_syntax.h"

namespace ampd {
namespace {

Problem ForeignAt(SourceMark mark, std::string message) { return {std::move(mark), "", std::move(message), "", {}}; }

// Whether the byte is a control character that no text contains, in any encoding that extends ASCII.
bool IsOfNoText(char c) {
  const auto byte = static_cast<unsigned char>(c);
  return byte < 0x20 && !absl::ascii_isspace(byte) && byte != 0x1B;
}

// Whether a line is "[section]" or "name = value", as in TOML and INI.
bool IsTomlLine(absl::string_view line) {
  const size_t equals = line.find('=');
  const absl::string_view name = absl::StripAsciiWhitespace(line.substr(0, equals));
  const auto is_of_name = [](unsigned char c) { return absl::ascii_isalnum(c) || absl::StrContains("_-.\"", c); };
  if (equals == absl::string_view::npos) {
    return line.size() > 2 && line.front() == '[' && line.back() == ']' &&
           std::all_of(line.begin() + 1, line.end() - 1, [&](char c) { return is_of_name(c) || c == '[' || c == ']'; });
  }
  return !name.empty() && std::all_of(name.begin(), name.end(), is_of_name);
}

}  // namespace

std::optional<Problem> FindBinary(std::string_view text, const std::string& source, const YamlKind& kind) {
  constexpr size_t kLooksAt = 4096;
  const SourceMark file{source, 0, 0};
  if (text.starts_with("\x1F\x8B")) {
    return ForeignAt(
        file, absl::StrCat("the file is compressed with gzip; ", kind.file, " is a text in YAML, so unpack it first"));
  }
  if (text.starts_with("PK\x03\x04")) {
    return ForeignAt(file, absl::StrCat("the file is a ZIP archive", kind.about_archives));
  }
  const std::string_view start = text.substr(0, kLooksAt);
  const bool is_binary = FirstInvalidUtf8(text).has_value() && std::any_of(start.begin(), start.end(), IsOfNoText);
  return is_binary
             ? std::optional(ForeignAt(file, absl::StrCat("the file is no text; ", kind.file, " is a text in YAML")))
             : std::nullopt;
}

std::optional<Problem> FindOtherLanguage(std::string_view text, const std::string& source, const YamlKind& kind) {
  if (text.starts_with("#!")) {
    std::string line(text.substr(0, std::min(text.find('\n'), text.size())));
    absl::StripAsciiWhitespace(&line);
    return ForeignAt({source, 1, 1}, absl::StrCat("the file is a script ('", Shortened(line, 40), "'), and not ",
                                                  kind.file, kind.about_empty));
  }
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    if (absl::StrContains(whole, "{{") || absl::StrContains(whole, "{%")) {
      const auto column = static_cast<int>(std::min(whole.find("{{"), whole.find("{%"))) + 1;
      return ForeignAt({source, number, column}, absl::StrCat("'", std::string(whole.substr(column - 1, 2)),
                                                              "' begins a placeholder of a template; ", kind.file,
                                                              " is plain YAML, so fill in the template first"));
    }
  }
  number = 0;
  for (const absl::string_view whole : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view line = absl::StripAsciiWhitespace(whole);
    if (line.empty() || line.front() == '#' || line.front() == ';') {
      continue;
    }
    return IsTomlLine(line)
               ? std::optional(
                     ForeignAt({source, number, 1}, absl::StrCat("this looks like TOML or INI; ", kind.file,
                                                                 " is YAML, where a field is written as NAME: VALUE")))
               : std::nullopt;
  }
  return std::nullopt;
}

bool LooksLikeJson(std::string_view text) {
  size_t at = 0;
  for (;;) {
    at = text.find_first_not_of(" \t\r\n", at);
    const std::string_view rest = at == std::string_view::npos ? "" : text.substr(at);
    const bool is_line = rest.starts_with("//") || rest.starts_with("#");
    if (!is_line && !rest.starts_with("/*")) {
      return rest.starts_with('{') || rest.starts_with('[');
    }
    const size_t end = is_line ? text.find('\n', at) : text.find("*/", at);
    if (end == std::string_view::npos) {
      return false;
    }
    at = end + (is_line ? 1 : 2);
  }
}

std::optional<Problem> FindSlashComment(std::string_view text, const std::string& source) {
  const bool is_json = LooksLikeJson(text);
  bool is_quoted = false;
  char before = '\n';  // The last character that is not a blank.
  for (size_t at = 0; at + 1 < text.size(); ++at) {
    const char c = text[at];
    const std::string two(text.substr(at, 2));
    const bool begins_token = at == 0 || absl::StrContains(" \t\r\n,{}[]\"", text[at - 1]);
    const bool may_begin = before == '\n' || (is_json && before != ':' && begins_token);
    if (is_quoted) {
      at += c == '\\' ? 1 : 0;
      is_quoted = c != '"';
    } else if ((two == "//" || two == "/*") && may_begin) {
      return ForeignAt(MarkAt(text, at, source),
                       absl::StrCat("'", two, "' begins no comment: JSON has no comments; YAML has # comments"));
    } else if (c == '"') {
      is_quoted = true;
    } else if (c == '#' && begins_token) {
      at = std::min(text.find('\n', at), text.size()) - 1;  // Skips the comment, in which any text is allowed.
    }
    before = c == ' ' || c == '\t' || c == '\r' ? before : c;
  }
  return std::nullopt;
}

std::optional<Problem> FindConflictMark(std::string_view text, const std::string& source) {
  const auto is_mark = [](absl::string_view line, absl::string_view mark) {
    return absl::StartsWith(line, mark) && (line.size() == mark.size() || line[mark.size()] == ' ');
  };
  int number = 0;
  for (const absl::string_view whole : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    ++number;
    const absl::string_view line = absl::StripTrailingAsciiWhitespace(whole);
    for (const absl::string_view mark : {"<<<<<<<", ">>>>>>>", "|||||||", "======="}) {
      if (is_mark(line, mark)) {
        return ForeignAt({source, number, 1},
                         absl::StrCat("'", mark,
                                      "' is a mark of a merge conflict in git; choose one of the two sides, "
                                      "and remove the marks"));
      }
    }
  }
  return std::nullopt;
}

Problem ExplainSecondDocument(std::string_view text, const SourceMark& start, const SourceMark& first,
                              bool begins_with_text, const YamlKind& kind) {
  const std::vector<absl::string_view> lines = absl::StrSplit(absl::string_view(text.data(), text.size()), '\n');
  const auto line_at = [&lines](int number) {
    const bool is_there = number >= 1 && static_cast<size_t>(number) <= lines.size();
    return is_there ? lines[static_cast<size_t>(number) - 1] : absl::string_view();
  };
  if (absl::StartsWith(line_at(start.line), "---")) {
    return ForeignAt(start, absl::StrCat("a second YAML document begins here ('---'); ", kind.file, " holds ",
                                         kind.content, ", so join the documents, or put each into a file of its own"));
  }
  for (int number = start.line - 1; number >= std::max(1, first.line); --number) {
    const absl::string_view line = line_at(number);
    if (absl::StartsWith(line, "...")) {
      return ForeignAt(start, absl::StrCat("the '...' in line ", number,
                                           " ends the document, so there must be no text after it; remove the line or "
                                           "the text"));
    }
  }
  if (begins_with_text) {
    const std::string line(absl::StripAsciiWhitespace(line_at(first.line)));
    return ForeignAt(first, ExplainBareLine(WithoutComment(line), kind));
  }
  const absl::string_view rest =
      line_at(start.line).substr(std::min<size_t>(std::max(0, start.column - 1), line_at(start.line).size()));
  const bool is_value = absl::StartsWith(rest, "{") || absl::StartsWith(rest, "[");
  return ForeignAt(start, is_value
                              ? absl::StrCat("a second JSON value begins here; ", kind.file, " holds ", kind.content)
                              : "there is text after the end of the value; remove it");
}

}  // namespace ampd
