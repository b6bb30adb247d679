#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "ampd/v1/job_spec.pb.h"
#include "base/error.h"
#include "base/yaml/look_alike.h"
#include "base/yaml/yaml_tree.h"
#include "client/jobfile/spec_override.h"

// Reads a job file, which is YAML, into a JobSpec and reports all problems at once with their positions. Fields, types
// and names come from the proto by reflection; none is listed here.
namespace ampd::client {

// The content of a job file. Usable only when `problems` is empty.
struct JobFile {
  v1::JobSpec spec;
  std::vector<Problem> problems;
  // The position in the source at which each field of `spec` was set. The key is the field's path
  // ("model.lenet.widths[1]"), in the names that users know and in those of the proto.
  std::map<std::string, SourceMark> marks;
  // The text from which each number, choice and duration of `spec` was read, by the same keys: "100000d".
  std::map<std::string, std::string> texts;
  // Characters that are not ASCII but look like ASCII. The key is the place in which they stand: the source, or
  // "--set train.steps". If such a character causes a problem, the message about the problem mentions it.
  std::map<std::string, std::vector<LookAlike>> look_alikes;
  // The fields of the file whose values were replaced by overrides.
  std::vector<Replacement> replaced;
  bool has_rivals = false;         // Whether two alternatives are set, so that what suits either cannot be judged.
  std::vector<std::string> notes;  // Effects of overrides that the user may not expect, in sentences.
};

// Parses `text`, applies the overrides "path=value" to it one after the other, and reads the result. `source` is the
// file's name in messages. An override of one member of a oneof replaces the member that the file sets. `name` is the
// value of --name; unless it is empty, it replaces the name in the file.
JobFile ReadJobFile(std::string_view text, const std::string& source, const std::vector<std::string>& overrides,
                    const std::string& name = "");

}  // namespace ampd::client
