#pragma once

#include <string>

#include "client/commands/command.h"

// Functions shared by the commands that concern one artifact.
namespace ampd::client {

// The positional argument: an artifact's name.
Argument ArtifactName(std::string* name);

// Returns the artifact of that name, or NOT_FOUND if the server has none.
absl::StatusOr<v1::Artifact> FindArtifact(JobClient* client, const std::string& name);

// Prints an artifact in the format of -o. In plain text, `done` follows the name and says what the command did with the
// artifact.
void ReportArtifact(const Session& session, const v1::Artifact& artifact, const std::string& done);

}  // namespace ampd::client
