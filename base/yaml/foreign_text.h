#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/yaml/yaml_tree.h"

// Recognises texts that are not YAML but something else, so that an error can say so.
namespace ampd {

// Returns the problem if the file is not a text: a compressed file, an archive or another binary file.
std::optional<Problem> FindBinary(std::string_view text, const std::string& source, const YamlKind& kind);

// Returns the problem if the text is in another language than YAML: TOML, INI or a template with placeholders. May
// mistake YAML for another language, so call it only for a text that could not be parsed.
std::optional<Problem> FindOtherLanguage(std::string_view text, const std::string& source, const YamlKind& kind);

// Returns the problem if the text has a comment of JavaScript, which begins with // or /*. Many tools accept such
// comments in JSON, but YAML does not have them. In a text that is not JSON, such a comment must begin a line.
std::optional<Problem> FindSlashComment(std::string_view text, const std::string& source);

// Returns the problem if a line of the text begins with a mark that git puts around the two sides of a merge conflict:
// "<<<<<<< ", "=======" or ">>>>>>> ".
std::optional<Problem> FindConflictMark(std::string_view text, const std::string& source);

// Explains why a second document begins at `start` of the text. `begins_with_text`: whether the first document is a
// word or a sentence, which begins at `first`.
Problem ExplainSecondDocument(std::string_view text, const SourceMark& start, const SourceMark& first,
                              bool begins_with_text, const YamlKind& kind);

// Whether the text is JSON or looks like it: its first character, behind comments, is a brace or a bracket.
bool LooksLikeJson(std::string_view text);

}  // namespace ampd
