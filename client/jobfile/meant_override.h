#pragma once

#include <google/protobuf/descriptor.h>

#include <optional>
#include <string>

#include "base/yaml/yaml_tree.h"
#include "client/jobfile/override_path.h"

// Explains overrides that users of other programs write.
namespace ampd::client {

// Returns the field at the path, whose indices are ignored; for a label, the field of the labels. Null if there is
// none.
const google::protobuf::FieldDescriptor* FieldAt(const google::protobuf::Descriptor& type, const std::string& path);

// Whether the path leads to a field of a job file, or to a label.
bool IsPathInJobFile(const std::string& path);

// Explains an assignment without a '=', such as "train.steps:3", "eval-" or "checkpoint.keep_best".
PathRefusal ExplainNoAssignment(const std::string& assignment, const google::protobuf::Descriptor& type);

// Explains a path that is no path of ampd, if it is known what was meant: quotes around it, "spec." before it, a '+' at
// its end, or several words that are names of other programs, as in "trainer.max_steps". `root` is the job file.
// Returns nothing for all other paths.
std::optional<PathRefusal> ExplainForeignPath(const std::string& path, const google::protobuf::Descriptor& type,
                                              const YamlNode& root);

}  // namespace ampd::client
