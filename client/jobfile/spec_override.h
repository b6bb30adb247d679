#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "base/yaml/yaml_tree.h"

namespace ampd::client {

// How messages call job files. The value of an override is read as a job file is, too.
inline constexpr YamlKind kJobFileKind = {
    .file = "a job file",
    .files = "job files",
    .content = "one job",
    .about_archives =
        ", such as a model that torch.export wrote; a job file is a text in YAML, which names its model in "
        "model.exported.path",
    .about_empty = "; to get a job file to start from: ampctl init"};

// Fields of the file that an override replaced: by another one of the same choice, or by a mapping without them.
struct Replacement {
  std::string by;    // "--set model.lenet.num_classes"
  std::string path;  // "model.mlp", "train.seed and train.epochs"
  SourceMark mark;   // the place of the replaced field in the file
};

// What applying overrides leads to, apart from the changed tree.
struct AppliedOverrides {
  std::vector<Problem>* problems;
  std::vector<Replacement>* replaced;
};

// Applies an assignment "path=value" (precision.preset=fp16, model.lenet.widths=[32,64],
// precision.module_rules[0].compute=fp32) to `root`, the YAML tree of a message of `type`. Creates missing nodes on
// the path. Setting a member of a oneof removes the other members: those of the file are recorded, and it is a problem
// if an earlier override set one. So are the fields of a mapping that the value replaces, and it is a problem if an
// earlier override set the value or a part of it. The position of the new value is "--set path". An unknown field is
// added too; the tree's reader reports it later.
void ApplyOverride(const std::string& assignment, const google::protobuf::Descriptor& type, YamlNode* root,
                   const AppliedOverrides& applied);

}  // namespace ampd::client
