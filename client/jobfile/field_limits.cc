#include "client/jobfile/field_limits.h"

#include <algorithm>
#include <string_view>

namespace ampd::client {

const FieldLimits* LimitsOf(const google::protobuf::FieldDescriptor& field) {
  const std::span<const FieldLimits> all = AllFieldLimits();
  const auto found =
      std::find_if(all.begin(), all.end(), [&](const FieldLimits& one) { return one.field == field.full_name(); });
  return found == all.end() ? nullptr : &*found;
}

bool ZeroMeansAtTheEnd(const google::protobuf::FieldDescriptor& field) {
  const FieldLimits* const limits = LimitsOf(field);
  return field.name() == "every_steps" && limits != nullptr && std::string_view(limits->limits).starts_with("0 ");
}

std::string HowToHaveNone(const google::protobuf::FieldDescriptor& field) {
  const std::string type(field.containing_type()->name());
  return type == "EvalSpec"     ? "; to train without evaluations, leave out data.eval"
         : type == "SampleSpec" ? "; to train without samples, leave out sample"
                                : "";
}

}  // namespace ampd::client
