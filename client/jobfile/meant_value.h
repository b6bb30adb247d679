#pragma once

#include <google/protobuf/descriptor.h>

#include <string>

#include "base/yaml/yaml_tree.h"
#include "client/jobfile/spec_scalar.h"

// Guesses what was meant by a value that its field refuses, for "did you mean".
namespace ampd::client {

// What SourceMark::source begins with if a --set made the value: "--set train.steps". Places in files never begin with
// it.
inline constexpr char kSetOption[] = "--set ";

// A field whose value is refused. The path is as the user wrote it.
struct RefusedField {
  std::string path;          // empty: the top of the job file
  bool is_override = false;  // whether a --set sets the value
};

// Returns the mapping that was probably meant by a text where a message of `type` must be: "{preset: bf16}" for
// "precision: bf16", "{static: {scale: 1024}}" for "loss_scale: 1024". For an override, the result may be a whole
// assignment: "train.steps=3" for "train=steps=3". Empty if there is no good guess.
std::string MeantMapping(const std::string& text, const RefusedField& refused,
                         const google::protobuf::Descriptor& type);

// Returns "{}" if a mapping of `type` may have no fields, so that "cosine: true" means "cosine: {}". Otherwise "".
std::string MeantBySwitch(const google::protobuf::Descriptor& type);

// Returns the mapping that was probably meant by a text such as "team=nlp,env=prod" where labels must be: "{team: nlp,
// env: prod}", or the whole assignment "labels.team=nlp" for one label in an override. Empty if the node is no such
// text.
std::string MeantPairs(const YamlNode& node, const RefusedField& refused);

// Returns the list that was probably meant by a text that the user wrote as the value of `field`, which takes a list:
// "[8, 16]" for "8 16" or "8,16". Empty if there is no good guess.
std::string MeantList(const std::string& text, const RefusedField& refused,
                      const google::protobuf::FieldDescriptor& field);

// Returns the items that were probably meant by the text of one item of the list `field`: "32, 64" for "32 64". Empty
// if the text is not several items.
std::string MeantItems(const std::string& text, const google::protobuf::FieldDescriptor& field);

// Returns what was probably meant by a scalar that its field refuses. If other overrides follow in the same --set,
// after a comma, a semicolon or a space, returns all of them: "--set train.steps=3 --set train.seed=1".
std::string MeantScalar(const YamlNode& node, const RefusedField& refused, const ScalarRefusal& refusal,
                        const google::protobuf::FieldDescriptor& field);

// Returns the end of a message about a text that its field refuses, if the text has a variable such as "${STEPS}" or,
// in a file, what was meant to be a comment. Empty if it has neither.
std::string WhyNoValue(const std::string& text, bool is_override);

// Returns the text without the quotes around it if the field accepts the bare text; otherwise "". In an override,
// quotes are a part of the text.
std::string WithoutQuotes(const std::string& text, const google::protobuf::FieldDescriptor& field);

// Whether the text has quotes around it: "'a'" or "\"a\"".
bool IsQuoted(const std::string& text);

// Whether the value is one with which other programs remove a field, such as "null". --set cannot remove fields.
bool MeansNoValue(const YamlNode& node, const google::protobuf::FieldDescriptor& field);

}  // namespace ampd::client
