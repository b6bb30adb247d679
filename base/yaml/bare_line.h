#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/yaml/yaml_tree.h"

// Finds mistakes that are valid YAML, or that the YAML parser reports only at a later line: fields without a ':' or
// without the space after it, list items without the space after their '-', and text that follows a closing quote.
namespace ampd {

// Explains a line that stands where a field or a list item must be, but is neither, such as "steps:2000", "steps 2000",
// "steps = 2000", "-8" or "!include x.yaml". `line` has no blanks around it and no comment.
std::string ExplainBareLine(std::string_view line, const YamlKind& kind);

// Searches for the line that caused a syntax error at line `number` (from 1): line `number` itself or the last line
// with text before it. Such a line stands where a field or a list item must be, but is neither. YAML reads it as the
// beginning of a scalar that continues on the next line. Of several such lines in a row, returns the first. Returns
// nothing if the line may belong to a scalar of several lines, or is inside brackets.
std::optional<Problem> FindBareLine(const std::vector<std::string>& lines, size_t number, const std::string& source,
                                    const YamlKind& kind);

// Returns the first problem of the form `name: "lenet" two`: a value in quotes, and text behind its closing quote.
std::optional<Problem> FindTextAfterQuote(const std::vector<std::string>& lines, const std::string& source);

// Returns the line without its comment and the blanks around it.
std::string_view WithoutComment(std::string_view line);

}  // namespace ampd
