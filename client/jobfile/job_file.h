#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "client/jobfile/yaml_tree.h"

// A job file: YAML to a JobSpec, with every problem found at once and placed. The fields, their types and their names
// are the proto's own; nothing about them is written down here.
namespace ampd::client {

// What a job file says. Usable only when `problems` is empty.
struct JobFile {
  v1::JobSpec spec;
  std::vector<Problem> problems;
  // Where each field was set, by its path in proto names ("model.lenet.widths[1]").
  std::map<std::string, SourceMark> marks;
};

// Reads `text`, shown as `source`, after applying each override "path=value" in turn. An override of one member of a
// oneof replaces the others.
JobFile ReadJobFile(std::string_view text, const std::string& source, const std::vector<std::string>& overrides);

// The server's violations as problems: each at the line of its field, or of the nearest enclosing one that the file
// sets.
std::vector<Problem> PlaceViolations(const std::vector<FieldViolation>& violations, const JobFile& file,
                                     const std::string& source);

// The problems as text for people, most important last: what, nearest name, allowed, and what to type.
std::string ProblemsText(const std::vector<Problem>& problems, const std::string& source);

}  // namespace ampd::client
