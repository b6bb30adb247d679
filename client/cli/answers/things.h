#pragma once

#include <string>

// The names that users of other programs give to kinds of things, such as "pods" for jobs.
namespace ampd::client {

// Whether the word is the name of a kind of thing.
bool IsThing(const std::string& word);

// Returns the word for the thing in the table of foreign words: "job" for "pods"; empty if the word names no thing.
std::string ThingNamed(const std::string& word);

// Returns the command group for the thing that the word names: "worker" for "nodes"; empty if there is none.
std::string GroupOfThing(const std::string& word);

}  // namespace ampd::client
