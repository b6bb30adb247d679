#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "base/trace_context.h"

namespace ampd {

// One field of a log line: its name and value. LogFields keeps the fields in order. This header is for code that only
// makes fields; base/log.h writes the lines.
using LogField = std::pair<std::string, std::variant<std::string, int64_t>>;
using LogFields = std::vector<LogField>;

// Appends the fields `trace_id`, `span_id` and `parent_span_id`. The field of an id that the context lacks is empty.
void AddTrace(const TraceContext& trace, LogFields* fields);
// Appends the fields `trace_id`, `span_id` and `parent_span_id` with the ids in `traceparent`. They are empty if
// `traceparent` is not valid.
void AddTrace(std::string_view traceparent, LogFields* fields);

}  // namespace ampd
