#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/yaml/yaml_tree.h"

// Explains why a text is not YAML, in words for people who write files by hand.
namespace ampd {

// Returns the position of the byte at `offset` of the text.
SourceMark MarkAt(std::string_view text, size_t offset, const std::string& source);

// Whether the text is UTF-16 or UTF-32.
bool IsWideText(std::string_view text);

// Checks that the text is UTF-8 without control characters other than line breaks and tabs, as YAML demands. Returns
// the first problem, with the offset of its byte in `text`.
std::optional<Problem> FindEncodingProblem(std::string_view text, const std::string& source);

// Explains a syntax error that yaml-cpp reported with the text `message` at `mark`, often by the mistake that led to
// it. `text` is the parsed text.
Problem ExplainSyntax(std::string_view text, const SourceMark& mark, const YamlKind& kind, const std::string& message);

}  // namespace ampd
