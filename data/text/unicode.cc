#include "data/text/unicode.h"

#include <unicode/bytestream.h>
#include <unicode/normalizer2.h>
#include <unicode/stringpiece.h>
#include <unicode/uchar.h>

#include <cstdlib>

namespace ampd::text {
namespace {

bool IsIn(char32_t value, uint32_t categories) {
  return (U_GET_GC_MASK(static_cast<UChar32>(value)) & categories) != 0;
}

}  // namespace

bool IsSpace(char32_t value) { return u_isUWhiteSpace(static_cast<UChar32>(value)) != 0; }
bool IsLetter(char32_t value) { return IsIn(value, U_GC_L_MASK); }
bool IsNumber(char32_t value) { return IsIn(value, U_GC_N_MASK); }
bool IsControl(char32_t value) { return IsIn(value, U_GC_C_MASK); }
bool IsPunctuation(char32_t value) { return IsIn(value, U_GC_P_MASK); }
bool IsAccent(char32_t value) { return IsIn(value, U_GC_MN_MASK); }

std::string Decomposed(std::string_view text) {
  UErrorCode error = U_ZERO_ERROR;
  const icu::Normalizer2* const nfd = icu::Normalizer2::getNFDInstance(error);
  std::string decomposed;
  icu::StringByteSink<std::string> sink(&decomposed);
  if (U_SUCCESS(error)) {
    nfd->normalizeUTF8(0, {text.data(), static_cast<int32_t>(text.size())}, sink, nullptr, error);
  }
  if (U_FAILURE(error)) {
    std::abort();  // Can't happen: NFD's data is part of ICU's library.
  }
  return decomposed;
}

char32_t Lower(char32_t value) { return static_cast<char32_t>(u_tolower(static_cast<UChar32>(value))); }

}  // namespace ampd::text
