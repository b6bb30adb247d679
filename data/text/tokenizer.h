#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ampd::text {

using Tokens = std::vector<uint32_t>;

// Turns text into token numbers. A long text may be encoded in pieces: if each cut is between a word and the white
// space after it, the tokens are the same as those of the whole text. Thread-compatible, because a tokenizer caches
// words.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the tokens of `text` to `tokens`. REQUIRES: `text` is UTF-8, unless takes_any_bytes().
  virtual void Encode(std::string_view text, Tokens* tokens) = 0;

  virtual bool takes_any_bytes() const { return false; }
  // The number of tokens: one more than the highest token number.
  virtual int64_t vocabulary() const = 0;
};

// Makes a tokenizer for which every byte is a token.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

}  // namespace ampd::text
