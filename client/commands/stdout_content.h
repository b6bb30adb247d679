#pragma once

#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/artifact_service.pb.h"
#include "client/api/cancellation.h"
#include "client/api/job_client.h"
#include "client/terminal/session.h"

// The name "-" of a file, with which a command writes a file of the server to stdout.
namespace ampd::client {

// Checks that the content of a file may go to stdout. INVALID_ARGUMENT if -o asks for other data there, or if stdout is
// a terminal, which the content could control.
absl::Status CheckContentToStdout(const Session& session);

// Writes the content of the artifacts to stdout, one after the other, and nothing else. Errors as StreamFile.
absl::Status PrintContents(Session* session, JobClient* client, const std::vector<v1::Artifact>& artifacts,
                           Cancellation* cancellation);

}  // namespace ampd::client
