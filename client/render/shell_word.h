#pragma once

#include <string>
#include <string_view>

// Words of a user in a command line that a message suggests.
namespace ampd::client {

// Returns the text as one word of a shell: in single quotes if it has characters that a shell would not take as they
// are, or if it is empty.
std::string ShellWord(std::string_view text);

// Returns the path of a file as one word of a shell. Puts "./" before a path that begins with "-", so that no command
// takes it for an option.
std::string ShellPath(std::string_view path);

}  // namespace ampd::client
