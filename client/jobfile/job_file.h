#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "client/jobfile/yaml_tree.h"

// Reads a job file, YAML to a JobSpec, and reports all problems at once with their positions. Fields, types and names
// come from the proto by reflection; none is listed here.
namespace ampd::client {

// The content of a job file. Usable only when `problems` is empty.
struct JobFile {
  v1::JobSpec spec;
  std::vector<Problem> problems;
  // The position where each field was set, by its path in proto names ("model.lenet.widths[1]").
  std::map<std::string, SourceMark> marks;
};

// Applies each override "path=value" in turn to `text`, then reads it. `source` is the file's name in messages. An
// override of one member of a oneof replaces the others.
JobFile ReadJobFile(std::string_view text, const std::string& source, const std::vector<std::string>& overrides);

// Turns the server's violations into problems, each at the line of its field, or of the nearest enclosing field that
// the file sets.
std::vector<Problem> PlaceViolations(const std::vector<FieldViolation>& violations, const JobFile& file,
                                     const std::string& source);

// The problems as text for people, the most important last: the problem, the nearest name, the allowed values, and what
// to type.
std::string ProblemsText(const std::vector<Problem>& problems, const std::string& source);

}  // namespace ampd::client
