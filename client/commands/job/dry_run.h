#pragma once

#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Prints notes about settings of the spec that are valid, but probably not intended. `spec` is as the server has
// accepted it.
void NoteOddities(const Session& session, const v1::JobSpec& spec);

// Prints what `ampctl job submit` would submit, the effect of its precision policy, and the memory of a step. Prints
// YAML with comments, or the format of -o. `spec` has every default filled in. `pending` is why the job would wait; the
// caller warns of it. Omits what the server can't report.
void PrintDryRun(Session* session, JobClient* client, const v1::JobSpec& spec, const v1::Pending& pending);

}  // namespace ampd::client
