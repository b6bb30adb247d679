#pragma once

#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Prints what would be submitted, the effect of its precision policy, and the memory of a step: as YAML with comments,
// or by -o. `spec` has every default filled in. Omits what the server does not know.
void PrintDryRun(Session* session, JobClient* client, const v1::JobSpec& spec);

}  // namespace ampd::client
