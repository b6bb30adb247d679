#include "models/exported.h"

#include <optional>

#include "graph/heads.h"

namespace ampd::models {

graph::ImportOptions ImportOptionsOf(const v1::ExportedModelSpec& spec, int64_t sequence_length) {
  return {.output = spec.output(),
          .head = graph::HeadNamed(v1::ExportedModelSpec::Head_Name(spec.head())),
          .count_output = spec.has_count_output() ? std::optional(spec.count_output()) : std::nullopt,
          .inputs = {spec.inputs().begin(), spec.inputs().end()},
          .sequence_length = sequence_length};
}

}  // namespace ampd::models
