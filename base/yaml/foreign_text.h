#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "base/yaml/yaml_tree.h"

// Recognises texts that are not YAML but something else, so that an error can say so.
namespace ampd {

// Returns the problem of a file that is no text: a compressed file, an archive or another binary file.
std::optional<Problem> FindBinary(std::string_view text, const std::string& source, const YamlKind& kind);

// Returns the problem of a text in another language than YAML: TOML, INI or a template with placeholders. May take YAML
// for another language, so ask it only about a text that could not be read.
std::optional<Problem> FindOtherLanguage(std::string_view text, const std::string& source, const YamlKind& kind);

}  // namespace ampd
