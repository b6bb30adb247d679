#pragma once

#include <google/protobuf/descriptor.h>

#include <span>
#include <string>

// The limits that the server sets for the values of a job file's fields, and the defaults. A test generates the table
// (field_limits_table.cc) and the page docs/job-file.md together, by trying which values the server accepts.
namespace ampd::client {

struct FieldLimits {
  const char* field;   // its full name: "ampd.v1.TrainSpec.steps"
  const char* limits;  // such as "1 to 1000"; empty: unknown, or different ones in different jobs
  // Whether the server treats 0, an empty text or an empty list as "not set", because it is not a valid value here. A
  // message on the wire cannot distinguish the two, but a job file can.
  bool is_unset_if_zero;
  const char* default_value;  // what the server fills in; empty: it depends on other fields
};

std::span<const FieldLimits> AllFieldLimits();

// Returns the limits of the field; null if the table has no line for it.
const FieldLimits* LimitsOf(const google::protobuf::FieldDescriptor& field);

// Whether the field is the number of steps after which something happens again and again, and 0 means that it happens
// only at the end: eval.every_steps, but not schedule.step.every_steps.
bool ZeroMeansAtTheEnd(const google::protobuf::FieldDescriptor& field);

// A job with 0 in this field still evaluates or samples once, at the end. Returns what to write to prevent that too, as
// the end of a sentence: "; to train without evaluations, leave out data.eval". Empty if nothing prevents it, as for
// checkpoints. REQUIRES: ZeroMeansAtTheEnd(field).
std::string HowToHaveNone(const google::protobuf::FieldDescriptor& field);

}  // namespace ampd::client
