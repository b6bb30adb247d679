#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "client/jobfile/yaml_tree.h"

namespace ampd::client {

// Applies "path=value" (precision.preset=fp16, model.lenet.widths=[32,64], precision.module_rules[0].compute=fp32) to
// the tree of a message of `type`, creating missing nodes on the path. Setting a member of a oneof removes the others.
// The mark of the new value is "--set path". Unknown fields are left for the tree's reader to report.
void ApplyOverride(const std::string& assignment, const google::protobuf::Descriptor& type, YamlNode* root,
                   std::vector<Problem>* problems);

}  // namespace ampd::client
