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

// Whether the text is JSON or looks like it: its first character, behind comments, is a brace or a bracket.
bool LooksLikeJson(std::string_view text);

}  // namespace ampd
