#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "client/commands/command.h"

// Functions that return the words with which the shell may complete an argument.
namespace ampd::client {

// A suggestion that stands for all file names; the shell itself completes them.
inline constexpr char kFileNames[] = ":files";

std::vector<std::string> SuggestFiles(const Typed& typed);

// These three ask the server, whose address is resolved as for any command (ResolveAddress). They return nothing if it
// does not answer within half a second.
std::vector<std::string> SuggestJobIds(const Typed& typed);  // the newest 100 jobs
std::vector<std::string> SuggestWorkers(const Typed& typed);
std::vector<std::string> SuggestArtifacts(const Typed& typed);

std::vector<std::string> SuggestContexts(const Typed& typed);

Suggest SuggestWords(std::vector<std::string> words);

// Returns a function that suggests the words of both.
Suggest SuggestBoth(Suggest first, Suggest second);

// Returns completions of `text`, the argument of --set. Before '=' they are paths of the message `type`: all fields at
// the level of the text's last dot. A value's path ends with '=', a mapping's with '.', and that of a list of mappings
// with "[0].". After '=' they are the values of an enumeration, or true and false.
std::vector<std::string> SpecPathsFor(const google::protobuf::Descriptor& type, const std::string& text);

}  // namespace ampd::client
