#pragma once

#include <string>
#include <vector>

#include "client/commands/command.h"

// Functions that make the arguments that several commands share. Each takes the address of the variable that the parser
// sets.
namespace ampd::client {

Argument JobId(std::string* id);
Argument JobIds(std::vector<std::string>* ids);

// -y: the command deletes without asking first.
Argument Yes(bool* confirmed);

// -f: the path of a job file.
Argument JobFilePath(std::string* path, bool is_required);

// --set: overrides of a job file's fields.
Argument SpecOverrides(std::vector<std::string>* overrides);

// The path of a file that the command writes.
Argument OutputFile(std::string* path);

// --force: replaces an existing file.
Argument Force(bool* replace);

// --attempt: the number of an attempt, 0 for the newest.
Argument AttemptNumber(int* attempt);

// --attempt of a command that takes a checkpoint: the number of the attempt that wrote it, 0 for any.
Argument AttemptOfCheckpoint(int* attempt);

// --device: the kind of the device for which a policy's effect is shown, such as gpu.
Argument ExampleDeviceKind(std::string* kind);

}  // namespace ampd::client
