#pragma once

#include <vector>

#include "ampd/v1/job_spec.pb.h"

namespace ampd::server {

// Specs that admission accepts. Together they set every required field, and have every message that a job file may
// hold. Where a default depends on other fields, two specs have different defaults.
std::vector<v1::JobSpec> AdmissibleSpecs();

}  // namespace ampd::server
