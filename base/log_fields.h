#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/trace_context.h"

namespace ampd {

// The fields of a line of the log, in their order: names and values. For code that gives its lines to somebody else to
// write; base/log.h writes them.
using LogField = std::pair<std::string, std::variant<std::string, int64_t>>;
using LogFields = std::vector<LogField>;

// Appends the fields `trace_id`, `span_id` and `parent_span_id`. Those of the ids that the context lacks are empty.
void AddTrace(const TraceContext& trace, LogFields* fields);
// The same for the trace that `traceparent` names; the fields are empty if it is not valid.
void AddTrace(std::string_view traceparent, LogFields* fields);

}  // namespace ampd
