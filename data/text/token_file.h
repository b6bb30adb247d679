#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "data/text/tokenizer.h"

namespace ampd::text {

// The formats that data/tokens.h describes and reads.
enum class TokenFileFormat {
  kLlmC,    // with a header, and as wide as the vocabulary needs
  kUint16,  // without
  kUint32,
};

struct TokenFileOptions {
  std::string text;         // path of the text
  std::string destination;  // path of the file to write
  bool replace = false;     // a file that is there
  bool any_format = false;  // bytes of a file that is no text, where the tokenizer takes any bytes
  TokenFileFormat format = TokenFileFormat::kLlmC;
  // Told now and then how much of the text has been read. False: stop with CANCELLED.
  std::function<bool(int64_t num_read, int64_t num_bytes)> progress = [](int64_t, int64_t) { return true; };
};

struct TokenFileSummary {
  int64_t num_text_bytes = 0;
  int64_t num_tokens = 0;
  int64_t token_bytes = 0;
  bool is_json = false;  // the text begins with an object or a list of JSON
};

// Writes the tokens of a text. Nothing is left at `destination` by a failure: INVALID_ARGUMENT when tokens do not fit
// the format, DATA_LOSS when the text can't be read as it must be, ALREADY_EXISTS.
absl::StatusOr<TokenFileSummary> WriteTokenFile(const TokenFileOptions& options, Tokenizer& tokenizer);

}  // namespace ampd::text
