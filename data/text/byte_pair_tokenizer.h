#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "data/text/tokenizer.h"
#include "data/text/word_cache.h"

namespace ampd::text {

// GPT-2's tokenizer (Radford et al. 2019). Text is cut into words by GPT-2's pattern, and the bytes of a word are
// merged pair by pair: the pair whose merge comes first in the list of merges is merged first, and of equal pairs the
// leftmost. Special tokens are not recognized: "<|endoftext|>" is ordinary text. Gives the same tokens as GPT2Tokenizer
// and GPT2TokenizerFast of Hugging Face transformers with split_special_tokens.
class BytePairTokenizer : public Tokenizer {
 public:
  // Makes the tokenizer from the contents of vocab.json (an object: token -> number) and merges.txt ("left right" per
  // line, after an optional first line "#version: ..."). Both files write the bytes of a token as characters of GPT-2's
  // byte alphabet. Returns INVALID_ARGUMENT if the vocabulary lacks a byte or a token that a merge needs.
  static absl::StatusOr<std::unique_ptr<Tokenizer>> Make(std::string_view vocabulary, std::string_view merges);

  void Encode(std::string_view text, Tokens* tokens) override;
  int64_t vocabulary() const override { return vocabulary_; }

 private:
  struct Merge {
    uint32_t rank = 0;
    uint32_t token = 0;
  };
  static uint64_t PairOf(uint32_t left, uint32_t right) { return uint64_t{left} << 32 | right; }

  Tokens EncodeWord(std::string_view word) const;

  int64_t vocabulary_ = 0;
  std::array<uint32_t, 256> of_byte_ = {};
  absl::flat_hash_map<uint64_t, Merge> merges_;
  WordCache cache_;
};

// Returns the end of the word that begins at `begin`, by GPT-2's pattern
//   's|'t|'re|'ve|'m|'ll|'d| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+
// REQUIRES: `text` is UTF-8, and a code point begins at `begin`.
size_t Gpt2WordEnd(std::string_view text, size_t begin);

}  // namespace ampd::text
