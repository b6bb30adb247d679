#include "base/trace_context.h"

#include <algorithm>
#include <cstddef>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"

namespace ampd {
namespace {

constexpr uint8_t kSampled = 0x01;
constexpr uint8_t kForbiddenVersion = 0xff;

// The value of a hexadecimal digit in lower case; -1 for any other character.
int DigitOf(char character) {
  if (character >= '0' && character <= '9') {
    return character - '0';
  }
  return character >= 'a' && character <= 'f' ? character - 'a' + 10 : -1;
}

// Fills the array with bytes from the hexadecimal digits at the beginning of `text`. REQUIRES: the text is long enough.
template <size_t kSize>
bool ReadHex(std::string_view text, std::array<uint8_t, kSize>* bytes) {
  for (size_t i = 0; i < kSize; ++i) {
    const int high = DigitOf(text[2 * i]);
    const int low = DigitOf(text[2 * i + 1]);
    if (high < 0 || low < 0) {
      return false;
    }
    (*bytes)[i] = static_cast<uint8_t>(16 * high + low);
  }
  return true;
}

template <size_t kSize>
bool IsZero(const std::array<uint8_t, kSize>& bytes) {
  return std::all_of(bytes.begin(), bytes.end(), [](uint8_t byte) { return byte == 0; });
}

template <size_t kSize>
std::string HexOf(const std::array<uint8_t, kSize>& bytes) {
  return IsZero(bytes) ? "" : absl::BytesToHexString({reinterpret_cast<const char*>(bytes.data()), kSize});
}

// Fills the array with random bytes that are not all zeros.
template <size_t kSize>
void Randomize(RandomSource& random, std::array<uint8_t, kSize>* bytes) {
  do {
    uint64_t bits = 0;
    for (size_t i = 0; i < kSize; ++i) {
      bits = i % 8 == 0 ? random.Next() : bits >> 8;
      (*bytes)[i] = static_cast<uint8_t>(bits);
    }
  } while (IsZero(*bytes));
}

}  // namespace

std::optional<TraceContext> ParseTraceparent(std::string_view text) {
  // Positions of the fields: 2 version, 32 trace id, 16 span id, 2 flags, with a '-' between them.
  if (text.size() < kTraceparentLength || text[2] != '-' || text[35] != '-' || text[52] != '-') {
    return std::nullopt;
  }
  TraceContext context;
  std::array<uint8_t, 1> version = {};
  std::array<uint8_t, 1> flags = {};
  if (!ReadHex(text, &version) || !ReadHex(text.substr(3), &context.trace_id) ||
      !ReadHex(text.substr(36), &context.span_id) || !ReadHex(text.substr(53), &flags)) {
    return std::nullopt;
  }
  const bool is_longer = text.size() > kTraceparentLength;
  const bool may_be_longer = version[0] > 0 && is_longer && text[kTraceparentLength] == '-';
  if (version[0] == kForbiddenVersion || (is_longer && !may_be_longer) || IsZero(context.trace_id) ||
      IsZero(context.span_id)) {
    return std::nullopt;
  }
  context.sampled = (flags[0] & kSampled) != 0;
  return context;
}

std::string FormatTraceparent(const TraceContext& context) {
  return context.IsSet() ? absl::StrCat("00-", HexOf(context.trace_id), "-", HexOf(context.span_id), "-",
                                        context.sampled ? "01" : "00")
                         : "";
}

TraceContext NewTrace(RandomSource& random) {
  TraceContext context;
  Randomize(random, &context.trace_id);
  Randomize(random, &context.span_id);
  return context;
}

TraceContext ChildSpan(const TraceContext& parent, RandomSource& random) {
  TraceContext context = parent;
  context.parent_span_id = parent.span_id;
  Randomize(random, &context.span_id);
  return context;
}

TraceContext ContinueOrBegin(std::string_view traceparent, RandomSource& random) {
  const std::optional<TraceContext> parent = ParseTraceparent(traceparent);
  return parent.has_value() ? ChildSpan(*parent, random) : NewTrace(random);
}

std::string TraceIdOf(const TraceContext& context) { return HexOf(context.trace_id); }

std::string SpanIdOf(const TraceContext& context) { return HexOf(context.span_id); }

std::string ParentSpanIdOf(const TraceContext& context) { return HexOf(context.parent_span_id); }

}  // namespace ampd
