#include "client/render/wrap.h"

#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr std::string_view kProgram = "ampctl ";

size_t LeadingSpaces(std::string_view line) { return std::min(line.find_first_not_of(' '), line.size()); }

// Returns the column to which the second and further parts of a broken line are indented: the column of the line's text
// after a gap such as in "state  FAILED" or, if there is no gap, a column derived from the line's own indentation.
int HangOf(std::string_view line, int width) {
  constexpr size_t kDescription = 20;  // A line with this much indentation continues an option's description.
  const size_t lead = LeadingSpaces(line);
  const size_t gap = line.find("  ", lead);
  const size_t after = gap == std::string_view::npos ? gap : line.find_first_not_of(' ', gap);
  if (after != std::string_view::npos && DisplayWidth(line.substr(0, after)) <= width / 2) {
    return DisplayWidth(line.substr(0, after));
  }
  return std::min(static_cast<int>(lead >= kDescription ? lead : lead + 2), width / 2);
}

// Returns the end of the command line of ampctl at `begin`, with the punctuation behind it. The command ends before two
// blanks or " (", behind a ';' or ',' that a blank or the end of the line follows, and behind a ')' that it has not
// opened. Without `has_quotes`, quotation marks are characters like any other.
size_t CommandEnd(std::string_view line, size_t begin, bool has_quotes = true) {
  char quote = 0;
  int depth = 0;
  for (size_t i = begin; i < line.size(); ++i) {
    const char c = line[i];
    const char next = i + 1 < line.size() ? line[i + 1] : ' ';
    if (c == '\\' && quote != '\'') {
      ++i;
    } else if (quote != 0) {
      quote = c == quote ? '\0' : quote;
    } else if (has_quotes && (c == '\'' || c == '"')) {
      quote = c;
    } else if (c == '(') {
      ++depth;
    } else if (c == ')' && depth-- == 0) {
      return std::min(line.find(' ', i), line.size());
    } else if (depth == 0 && (c == ';' || c == ',') && next == ' ') {
      return i + 1;
    } else if (depth == 0 && c == ' ' && (next == ' ' || next == '(')) {
      return i;
    }
  }
  return quote == 0 ? line.size() : CommandEnd(line, begin, /*has_quotes=*/false);
}

// Whether a command line that the reader may type begins at `begin`, and not a sentence about ampctl or one of its
// commands. A command line to type stands at the beginning of the line, behind a colon or "then", or behind another one
// (`follows_command`).
bool IsToType(std::string_view line, size_t begin, bool follows_command) {
  const size_t lead = std::min(LeadingSpaces(line), begin);
  std::string_view before = line.substr(lead, begin - lead);
  before = before.substr(0, before.find_last_not_of(' ') + 1);
  return line.substr(begin).starts_with(kProgram) && before != "error:" && before != "warning:" && before != "note:" &&
         (before.empty() || before.ends_with(":") || before.ends_with(" then") || follows_command);
}

// Returns the end of the piece of text at `begin` that must not be split: a word or, if it fits into `space` columns, a
// command line of ampctl.
size_t PieceEnd(std::string_view line, size_t begin, int space) {
  const size_t word = std::min(line.find(' ', begin), line.size());
  if (line.substr(begin, kProgram.size()) != kProgram) {
    return word;
  }
  const size_t end = CommandEnd(line, begin);
  return DisplayWidth(line.substr(begin, end - begin)) <= space ? end : word;
}

// Splits a command line into words. A quoted word may contain spaces, and a backslash takes the next character as it
// is.
std::vector<std::string> ShellWords(std::string_view line) {
  std::vector<std::string> words(1);
  char quote = 0;
  bool is_escaped = false;
  for (const char c : line) {
    if (c == ' ' && quote == 0 && !is_escaped) {
      words.emplace_back();
      continue;
    }
    words.back() += c;
    if (is_escaped || (c == '\\' && quote != '\'')) {
      is_escaped = !is_escaped;
      continue;
    }
    quote = quote == 0 && (c == '\'' || c == '"') ? c : quote == c ? '\0' : quote;
  }
  return words;
}

std::string WrapCommand(std::string_view line, int width) {
  const std::string continued = " \\";
  const std::string indent(LeadingSpaces(line), ' ');
  std::string wrapped = indent;
  int column = static_cast<int>(indent.size());
  bool is_first = true;
  for (const std::string& word : ShellWords(line.substr(indent.size()))) {
    const int columns = DisplayWidth(word);
    if (!is_first && column + 1 + columns > width - static_cast<int>(continued.size())) {
      absl::StrAppend(&wrapped, continued, "\n", indent, "    ", word);
      column = static_cast<int>(indent.size()) + 4 + columns;
    } else {
      absl::StrAppend(&wrapped, is_first ? "" : " ", word);
      column += columns + (is_first ? 0 : 1);
    }
    is_first = false;
  }
  return wrapped;
}

std::string WrapProse(std::string_view line, int width) {
  const int hang = HangOf(line, width);
  std::string wrapped(LeadingSpaces(line), ' ');
  int column = static_cast<int>(wrapped.size());
  bool is_first = true;
  bool follows_command = false;
  for (size_t at = wrapped.size(); at < line.size();) {
    const size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    const bool is_to_type = IsToType(line, begin, follows_command);
    const size_t end = is_to_type ? CommandEnd(line, begin) : PieceEnd(line, begin, width - hang);
    const std::string_view piece = line.substr(begin, end - begin);
    const int num_spaces = static_cast<int>(begin - at);
    if (is_to_type && DisplayWidth(piece) > width - hang) {
      // A shell would run the first line alone if the command were broken as prose is.
      const std::string indent(is_first ? begin : static_cast<size_t>(hang), ' ');
      wrapped = absl::StrCat(is_first ? "" : wrapped + "\n", WrapCommand(indent + std::string(piece), width));
      column = DisplayWidth(wrapped.substr(wrapped.rfind('\n') + 1));
    } else if (!is_first && column + num_spaces + DisplayWidth(piece) > width) {
      absl::StrAppend(&wrapped, "\n", std::string(hang, ' '), std::string(piece));
      column = hang + DisplayWidth(piece);
    } else {
      absl::StrAppend(&wrapped, std::string(num_spaces, ' '), std::string(piece));
      column += num_spaces + DisplayWidth(piece);
    }
    is_first = false;
    follows_command = is_to_type;
    at = end;
  }
  return wrapped;
}

std::string WrapLine(std::string_view line, int width) {
  // Leave lines with tabs as they are, because the terminal's tab stops are unknown.
  if (DisplayWidth(line) <= width || line.find('\t') != std::string_view::npos) {
    return std::string(line);
  }
  constexpr size_t kMostIndent = 4;
  const size_t lead = LeadingSpaces(line);
  const bool is_command =
      lead <= kMostIndent && line.substr(lead).starts_with(kProgram) && line.find("  ", lead) == std::string_view::npos;
  return is_command ? WrapCommand(line, width) : WrapProse(line, width);
}

}  // namespace

std::string WrapLines(std::string_view text, int width) {
  if (width <= 0) {
    return std::string(text);
  }
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    lines.push_back(WrapLine({line.data(), line.size()}, width));
  }
  return absl::StrJoin(lines, "\n");
}

}  // namespace ampd::client
