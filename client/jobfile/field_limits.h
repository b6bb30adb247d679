#pragma once

#include <google/protobuf/descriptor.h>

#include <span>

// What the server demands of the values of fields, as docs/job-file.md says it. The table, field_limits_table.cc, is
// made together with that page, by asking admission.
namespace ampd::client {

struct FieldLimits {
  const char* field;   // its full name: "ampd.v1.TrainSpec.steps"
  const char* limits;  // such as "1 to 1000"; empty: unknown, or different ones in different jobs
  // Whether the server treats 0, an empty text or an empty list as "not set", because it is not a valid value here.
  // value. A message on the wire cannot tell the two, but a job file can.
  bool is_unset_if_zero;
  const char* default_value;  // what the server fills in; empty: it depends on other fields
};

std::span<const FieldLimits> AllFieldLimits();

// Returns null if the field has no limits and no default that is worth a line of the table.
const FieldLimits* LimitsOf(const google::protobuf::FieldDescriptor& field);

}  // namespace ampd::client
