#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ampd::text {

using Tokens = std::vector<uint32_t>;

// Turns text into the numbers of its tokens. Text may be cut in front of white space that follows something else, and
// the tokens of the pieces are those of the whole. Thread-compatible: it remembers words that it has seen.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the tokens of `text`. REQUIRES: it is UTF-8, unless takes_any_bytes().
  virtual void Encode(std::string_view text, Tokens* tokens) = 0;

  virtual bool takes_any_bytes() const { return false; }
  // Every token is below it.
  virtual int64_t vocabulary() const = 0;
};

// Every byte is a token.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

}  // namespace ampd::text
