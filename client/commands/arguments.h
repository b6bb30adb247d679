#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"

// Arguments that several commands have. Each sets the variable that it is given.
namespace ampd::client {

Argument JobId(std::string* id);
Argument JobIds(std::vector<std::string>* ids);

// -y: skips the question of a command that deletes.
Argument Yes(bool* confirmed);

// --force: replaces an existing file.
Argument Force(bool* replace);

// --attempt: the number of an attempt, 0 for the newest.
Argument AttemptNumber(int* attempt);

// --device: the kind of an example device, for policies.
Argument ExampleDeviceKind(std::string* kind);

}  // namespace ampd::client
