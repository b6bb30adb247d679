#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "data/text/tokenizer.h"

namespace ampd::text {

// The format of the file to write; data/tokens.h describes the formats.
enum class TokenFileFormat {
  kLlmC,    // With a header; tokens have the width that the vocabulary needs.
  kUint16,  // Without a header.
  kUint32,
};

struct TokenFileOptions {
  std::string text;         // Path of the text.
  std::string destination;  // Path of the file to write.
  bool replace = false;     // Overwrite an existing file.
  bool any_format = false;  // Accept files that are not text if the tokenizer takes arbitrary bytes.
  TokenFileFormat format = TokenFileFormat::kLlmC;
  // WriteTokenFile calls this from time to time with the number of bytes that it has read so far, and with the size of
  // the whole text in bytes. If it returns false, WriteTokenFile stops with CANCELLED.
  std::function<bool(int64_t num_read, int64_t num_bytes)> progress = [](int64_t, int64_t) { return true; };
};

struct TokenFileSummary {
  int64_t num_text_bytes = 0;
  int64_t num_tokens = 0;
  int64_t token_bytes = 0;
  bool is_json = false;  // The text begins with a JSON object or list.
};

// Writes the tokens of a text to a file. After an error there is no new file at `destination`. Errors: INVALID_ARGUMENT
// if tokens do not fit the format, DATA_LOSS if the text is invalid or can't be read, ALREADY_EXISTS.
absl::StatusOr<TokenFileSummary> WriteTokenFile(const TokenFileOptions& options, Tokenizer& tokenizer);

}  // namespace ampd::text
