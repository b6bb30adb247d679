#include "client/jobfile/field_limits.h"

#include <algorithm>

namespace ampd::client {

const FieldLimits* LimitsOf(const google::protobuf::FieldDescriptor& field) {
  const std::span<const FieldLimits> all = AllFieldLimits();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const FieldLimits& one) { return one.field == field.full_name(); });
  return found == all.end() ? nullptr : &*found;
}

}  // namespace ampd::client
