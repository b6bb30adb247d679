#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

// The data for shell completion: quick, and silent about errors.
namespace ampd::client {

// A script for bash: `source <(ampctl completion bash)`. It runs `ampctl __complete WORD...`, which prints candidates
// for the last word, one per line.
std::string BashCompletion();

// These ask the server that the flag names, as in ResolveAddress. Empty if it does not answer within half a second.
std::vector<std::string> JobIdsFor(const std::string& address_flag);  // the newest 100
std::vector<std::string> WorkerNamesFor(const std::string& address_flag);
std::vector<std::string> ArtifactNamesFor(const std::string& address_flag);

std::vector<std::string> ContextNames();

// Candidates for --set: below the last dot of `typed` the fields of `type`, values ending in '=', mappings in '.',
// lists of mappings in "[0]."; after '=' the names of the enumeration, or true and false.
std::vector<std::string> SpecPathsFor(const google::protobuf::Descriptor& type, const std::string& typed);

}  // namespace ampd::client
