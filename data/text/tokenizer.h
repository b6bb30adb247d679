#pragma once

#include <cstdint>
#include <memory>
#include <string_view>
#include <vector>

namespace ampd::text {

using Tokens = std::vector<uint32_t>;

// Turns text into token numbers. If a text is cut before white space that follows something else, the tokens of the
// pieces are those of the whole. Thread-compatible, because it caches words that it has seen.
class Tokenizer {
 public:
  virtual ~Tokenizer() = default;

  // Appends the tokens of `text`. REQUIRES: it is UTF-8, unless takes_any_bytes().
  virtual void Encode(std::string_view text, Tokens* tokens) = 0;

  virtual bool takes_any_bytes() const { return false; }
  // One more than the highest token.
  virtual int64_t vocabulary() const = 0;
};

// Makes a tokenizer for which every byte is a token.
std::unique_ptr<Tokenizer> MakeByteTokenizer();

}  // namespace ampd::text
