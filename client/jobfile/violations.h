#pragma once

#include <string>
#include <vector>

#include "base/error.h"
#include "base/yaml/yaml_tree.h"
#include "client/jobfile/job_file.h"

namespace ampd::client {

// Turns the field violations that the server reported into problems. Each is placed at the line of its field or, if
// the file does not set that field, of the nearest field around it that the file sets.
std::vector<Problem> PlaceViolations(const std::vector<FieldViolation>& violations, const JobFile& file,
                                     const std::string& source);

}  // namespace ampd::client
