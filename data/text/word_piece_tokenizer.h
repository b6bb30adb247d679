#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "absl/status/statusor.h"
#include "data/text/tokenizer.h"
#include "data/text/word_cache.h"

namespace ampd::text {

// BERT's tokenizer (Devlin et al. 2018): control characters go, Chinese characters and punctuation stand alone, unless
// `cased` accents go and letters become small, and a word is cut into the longest pieces that the vocabulary has from
// its beginning on, or is [UNK] where it has none or more than 100 characters. Text is text: "[SEP]" in it is no token
// of its own. Equal to BertTokenizerFast of Hugging Face transformers with split_special_tokens; BertTokenizer differs
// from that in composed accents of cased text and in the small form of a capital sigma at the end of a word.
class WordPieceTokenizer : public Tokenizer {
 public:
  // From the content of vocab.txt: one token a line, numbered from 0; inner pieces begin with "##". INVALID_ARGUMENT
  // when a token comes twice or [UNK] is missing.
  static absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> Make(std::string_view vocabulary, bool cased);

  void Encode(std::string_view text, Tokens* tokens) override;
  int64_t vocabulary() const override { return static_cast<int64_t>(numbers_.size()); }

  // Of "[CLS]" and the like.
  std::optional<uint32_t> Find(std::string_view token) const;

 private:
  void EncodeWord(std::string_view word, Tokens* tokens) const;
  bool AppendPieces(std::string_view word, Tokens* tokens) const;

  bool cased_ = false;
  uint32_t unknown_ = 0;
  size_t longest_bytes_ = 0;  // of a token
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  WordCache cache_;
};

}  // namespace ampd::text
