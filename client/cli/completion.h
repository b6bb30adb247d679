#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

// What the completion of a shell asks for while somebody types: quick, and silent about errors.
namespace ampd::client {

// A script for bash: `source <(ampctl completion bash)`. It asks `ampctl __complete WORD...` for what may stand in the
// place of the last word, one candidate a line.
std::string BashCompletion();

// Asked of the server that the flag, as in ResolveAddress, stands for; empty when it does not answer within half a
// second.
std::vector<std::string> JobIdsFor(const std::string& address_flag);  // the newest 100
std::vector<std::string> WorkerNamesFor(const std::string& address_flag);
std::vector<std::string> ArtifactNamesFor(const std::string& address_flag);

std::vector<std::string> ContextNames();

// What --set may go on with: below the last dot of `typed` the fields of `type`, values ending in '=', mappings in '.',
// lists of mappings in "[0]."; behind '=' the names of an enumeration, or true and false.
std::vector<std::string> SpecPathsFor(const google::protobuf::Descriptor& type, const std::string& typed);

}  // namespace ampd::client
