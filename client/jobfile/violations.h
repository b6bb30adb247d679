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

// Whether the description of a violation names the field at `path`. A path without a dot, such as "train", never
// counts, because it may be a word of the sentence.
bool NamesField(const std::string& description, const std::string& path);

// Whether the description of a violation names a field within the one at `path`, such as train.steps within train.
bool NamesFieldWithin(const std::string& description, const std::string& path);

}  // namespace ampd::client
