#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "base/random.h"

namespace ampd {

// The position of one call, process or attempt in a distributed trace, in the terms of W3C Trace Context, level 1
// (https://www.w3.org/TR/trace-context-1/). A trace is everything that one request to a system causes. A span is the
// part of the trace that one call or process does; its parent is the span that caused it. The value has a fixed size,
// whatever a client sends. A default value belongs to no trace.
struct TraceContext {
  std::array<uint8_t, 16> trace_id = {};       // All zeros: no trace.
  std::array<uint8_t, 8> span_id = {};         // All zeros only if there is no trace.
  std::array<uint8_t, 8> parent_span_id = {};  // All zeros: the span has no parent, or the parent is not known.
  bool sampled = false;                        // The W3C flag: whoever began the trace may record it.

  // Whether the value belongs to a trace.
  bool IsSet() const { return trace_id != std::array<uint8_t, 16>{}; }

  friend bool operator==(const TraceContext&, const TraceContext&) = default;
};

// The name of the HTTP header and of the gRPC metadata key that carry a trace context.
inline constexpr char kTraceparent[] = "traceparent";
// The length in characters of a traceparent of version 00.
inline constexpr size_t kTraceparentLength = 55;

// Parses the value of a traceparent header; the span that it names becomes `span_id`, and `parent_span_id` stays empty.
// Returns nothing if the value is not valid: the receiver then begins a new trace. Keeps the flag `sampled` and drops
// all other flags. In a value of a later version than 00, as the standard demands, the first 55 characters are read
// like those of version 00, and the text must end there or continue with '-'.
std::optional<TraceContext> ParseTraceparent(std::string_view text);

// Formats the value as a traceparent of version 00, 55 characters: "00-<trace id>-<span id>-<flags>". Empty if the
// value belongs to no trace.
std::string FormatTraceparent(const TraceContext& context);

// Begins a trace: random ids, no parent, not sampled.
TraceContext NewTrace(RandomSource& random);

// Makes a new span in the trace of `parent`. The parent of the new span is the span of `parent`. REQUIRES: `parent`
// belongs to a trace.
TraceContext ChildSpan(const TraceContext& parent, RandomSource& random);

// A new span of the trace that `traceparent` names or, if that is not valid, of a new trace.
TraceContext ContinueOrBegin(std::string_view traceparent, RandomSource& random);

// These functions return the ids of the context in lower-case hexadecimal; empty if the context lacks the id.
std::string TraceIdOf(const TraceContext& context);
std::string SpanIdOf(const TraceContext& context);
std::string ParentSpanIdOf(const TraceContext& context);

}  // namespace ampd
