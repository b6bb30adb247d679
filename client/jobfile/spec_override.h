#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "client/jobfile/yaml_tree.h"

namespace ampd::client {

// Applies an assignment "path=value" (precision.preset=fp16, model.lenet.widths=[32,64],
// precision.module_rules[0].compute=fp32) to `root`, the YAML tree of a message of `type`. Creates missing nodes on
// the path. Setting a member of a oneof removes the other members. The position of the new value is "--set path". An
// unknown field is added too; the tree's reader reports it later.
void ApplyOverride(const std::string& assignment, const google::protobuf::Descriptor& type, YamlNode* root,
                   std::vector<Problem>* problems);

}  // namespace ampd::client
