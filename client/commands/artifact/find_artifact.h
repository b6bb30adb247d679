#pragma once

#include <string>

#include "client/commands/command.h"

// Shared by the commands about one artifact.
namespace ampd::client {

// The positional argument: an artifact's name.
Argument ArtifactName(std::string* name);

// NOT_FOUND if the server has no artifact of that name.
absl::StatusOr<v1::Artifact> FindArtifact(JobClient* client, const std::string& name);

// Prints an artifact by -o; `done` says for people what was done with it.
void ReportArtifact(const Session& session, const v1::Artifact& artifact, const std::string& done);

}  // namespace ampd::client
