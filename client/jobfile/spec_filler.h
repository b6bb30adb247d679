#pragma once

#include "base/yaml/yaml_tree.h"
#include "client/jobfile/job_file.h"

namespace ampd::client {

// Fills the spec of `file` from the tree of a job file by reflection. Adds its problems, the places of its fields and
// their texts to `file`. After a problem, it continues with the next field.
void FillSpec(const YamlNode& root, JobFile* file);

}  // namespace ampd::client
