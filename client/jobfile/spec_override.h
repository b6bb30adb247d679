#pragma once

#include <google/protobuf/descriptor.h>

#include <string>
#include <vector>

#include "base/yaml/yaml_tree.h"

namespace ampd::client {

// The words for job files in the messages of the YAML parser. Messages about the value of an override, which is YAML
// too, use the same words.
inline constexpr YamlKind kJobFileKind = {
    .file = "a job file",
    .files = "job files",
    .content = "one job",
    .about_archives =
        ", such as a model that torch.export wrote; a job file is a text in YAML, which names its model in "
        "model.exported.path",
    .about_empty = "; to get a job file to start from: ampctl init"};

// Fields of the file that an override removed: it set another member of their oneof, or replaced the mapping that has
// them by one that lacks them.
struct Replacement {
  std::string by;    // "--set model.lenet.num_classes"
  std::string path;  // "model.mlp", "train.seed and train.epochs"
  SourceMark mark;   // the place of the replaced field in the file
};

// The lists to which ApplyOverride appends problems, replaced fields and notes.
struct AppliedOverrides {
  std::vector<Problem>* problems;
  std::vector<Replacement>* replaced;
  std::vector<std::string>* notes;  // effects that the user may not expect, in sentences
};

// Returns SourceMark::source of the override: "--set train.steps".
std::string PlaceOfOverride(const std::string& assignment);

// Applies an assignment "path=value" (precision.preset=fp16, model.lenet.widths=[32,64],
// precision.module_rules[0].compute=fp32) to `root`, the YAML tree of a message of `type`. Creates missing nodes on the
// path. Setting a member of a oneof removes the other members. If the value replaces a mapping, fields that the new
// value lacks are removed. Removed fields of the file are added to `applied.replaced`. If an earlier override has set a
// removed member, or this value or a part of it, a problem is added to `applied.problems`. The position of the new
// value is "--set path". An unknown field is added to the tree too; the reader of the tree reports it later. If a field
// on the path must be a mapping or a list and has another value, the value stays and a problem is added. If `root` is
// no mapping, it stays as it is, because the reader reports it.
// If the path leads to an item of a list that the file does not set, the other items are those of the default list.
void ApplyOverride(const std::string& assignment, const google::protobuf::Descriptor& type, YamlNode* root,
                   const AppliedOverrides& applied);

}  // namespace ampd::client
