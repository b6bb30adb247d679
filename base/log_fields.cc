#include "base/log_fields.h"

namespace ampd {

void AddTrace(const TraceContext& trace, LogFields* fields) {
  fields->emplace_back("trace_id", TraceIdOf(trace));
  fields->emplace_back("span_id", SpanIdOf(trace));
  fields->emplace_back("parent_span_id", ParentSpanIdOf(trace));
}

void AddTrace(std::string_view traceparent, LogFields* fields) {
  AddTrace(ParseTraceparent(traceparent).value_or(TraceContext()), fields);
}

}  // namespace ampd
