#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "client/jobfile/yaml_tree.h"

// Recognises files that are no job files but something else, so that an error can say so.
namespace ampd::client {

// Returns the problem of a file that is no text: a compressed file, an archive or another binary file.
std::optional<Problem> FindBinary(std::string_view text, const std::string& source);

// Returns the problem of a text in another language than YAML: TOML, INI or a template with placeholders. May take YAML
// for another language, so ask it only about a text that is no job file.
std::optional<Problem> FindOtherLanguage(std::string_view text, const std::string& source);

}  // namespace ampd::client
