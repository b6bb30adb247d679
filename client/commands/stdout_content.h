#pragma once

#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/artifact_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"
#include "client/terminal/session.h"

// Functions for commands that write a file of the server to stdout, because the user named the file "-".
namespace ampd::client {

// Checks that a file's content may go to stdout. INVALID_ARGUMENT if -o asks for other data on stdout, or if stdout is
// a terminal, because the content could control the terminal.
absl::Status CheckContentToStdout(const Session& session);

// Writes the contents of the artifacts to stdout, one after the other, and nothing else. Returns the errors of
// StreamFile.
absl::Status PrintContents(Session* session, JobClient* client, const std::vector<v1::Artifact>& artifacts,
                           Cancellation* cancellation);

}  // namespace ampd::client
