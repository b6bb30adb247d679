#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "client/commands/command.h"

// Functions that return the words with which the shell may complete an argument.
namespace ampd::client {

// A suggestion that makes the shell complete file names itself.
inline constexpr char kFileNames[] = ":files";

std::vector<std::string> SuggestFiles(const Typed& typed);

// Suggests the ids of the newest 100 jobs, and the names that only one of these jobs has. This function and the next
// two ask the server, whose address is resolved as for any command (ResolveAddress). All three return nothing if the
// server does not answer within half a second.
std::vector<std::string> SuggestJobIds(const Typed& typed);
std::vector<std::string> SuggestWorkers(const Typed& typed);
std::vector<std::string> SuggestArtifacts(const Typed& typed);

std::vector<std::string> SuggestContexts(const Typed& typed);
std::vector<std::string> SuggestTokens(const Typed& typed);

Suggest SuggestWords(std::vector<std::string> words);

// Returns a function that suggests the words of `first` and those of `second`.
Suggest SuggestBoth(Suggest first, Suggest second);

// Returns completions of `text`, the value of --set, which is PATH=VALUE for a message of `type`. For an incomplete
// path, returns all fields at its last level. The completed path ends with '=' for a value, with '.' for a mapping, and
// with "[0]." for a list of mappings. After '=', returns the values of an enumeration, or true and false.
std::vector<std::string> SpecPathsFor(const google::protobuf::Descriptor& type, const std::string& text);

}  // namespace ampd::client
