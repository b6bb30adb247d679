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

// Returns the end of the piece of text at `begin` that must not be split: a word or, if it fits into `space` columns, a
// command line of ampctl.
size_t PieceEnd(std::string_view line, size_t begin, int space) {
  const size_t word = std::min(line.find(' ', begin), line.size());
  if (line.substr(begin, kProgram.size()) != kProgram) {
    return word;
  }
  size_t end =
      std::min({line.find_first_of(";,)", begin), line.find("  ", begin), line.find(" (", begin), line.size()});
  while (end < line.size() && line[end] != ' ') {
    ++end;  // Punctuation stays with the preceding word.
  }
  return DisplayWidth(line.substr(begin, end - begin)) <= space ? end : word;
}

std::string WrapProse(std::string_view line, int width) {
  const int hang = HangOf(line, width);
  std::string wrapped(LeadingSpaces(line), ' ');
  int column = static_cast<int>(wrapped.size());
  bool is_first = true;
  for (size_t at = wrapped.size(); at < line.size();) {
    const size_t begin = std::min(line.find_first_not_of(' ', at), line.size());
    const size_t end = PieceEnd(line, begin, width - hang);
    const std::string_view piece = line.substr(begin, end - begin);
    const int num_spaces = static_cast<int>(begin - at);
    if (!is_first && column + num_spaces + DisplayWidth(piece) > width) {
      absl::StrAppend(&wrapped, "\n", std::string(hang, ' '));
      column = hang;
    } else {
      absl::StrAppend(&wrapped, std::string(num_spaces, ' '));
      column += num_spaces;
    }
    wrapped += piece;
    column += DisplayWidth(piece);
    is_first = false;
    at = end;
  }
  return wrapped;
}

// Splits a command line into words. A quoted word may contain spaces.
std::vector<std::string> ShellWords(std::string_view line) {
  std::vector<std::string> words(1);
  char quote = 0;
  for (const char c : line) {
    if (c == ' ' && quote == 0) {
      words.emplace_back();
      continue;
    }
    quote = quote == 0 && (c == '\'' || c == '"') ? c : quote == c ? '\0' : quote;
    words.back() += c;
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
