#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "client/commands/command.h"

// Candidates for the completion of an argument.
namespace ampd::client {

// Stands for all names of files, which the shell itself completes.
inline constexpr char kFileNames[] = ":files";

std::vector<std::string> SuggestFiles(const Typed& typed);

// These ask the server, as in ResolveAddress. Empty if it does not answer within half a second.
std::vector<std::string> SuggestJobIds(const Typed& typed);  // the newest 100
std::vector<std::string> SuggestWorkers(const Typed& typed);
std::vector<std::string> SuggestArtifacts(const Typed& typed);

std::vector<std::string> SuggestContexts(const Typed& typed);

Suggest SuggestWords(std::vector<std::string> words);

// Suggests all that the two suggest.
Suggest SuggestBoth(Suggest first, Suggest second);

// Paths and values for --set: below the last dot of the text the fields of `type`, values ending in '=', mappings in
// '.', lists of mappings in "[0]."; after '=' the names of the enumeration, or true and false.
std::vector<std::string> SpecPathsFor(const google::protobuf::Descriptor& type, const std::string& text);

}  // namespace ampd::client
