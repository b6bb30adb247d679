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

// BERT's tokenizer (Devlin et al. 2018). It removes control characters, separates Chinese characters and punctuation,
// and, unless `cased`, removes accents and converts to lower case. A word is then cut from its start into pieces, each
// the longest one that the vocabulary has. If the vocabulary has no fitting piece, or the word has more than 100
// characters, the word becomes [UNK]. Special tokens are not recognized: "[SEP]" is ordinary text. Gives the same
// tokens as BertTokenizerFast of Hugging Face transformers with split_special_tokens. The slower BertTokenizer of
// transformers differs in two cases: composed accents in cased text, and a capital sigma at the end of a word.
class WordPieceTokenizer : public Tokenizer {
 public:
  // Makes the tokenizer from the content of vocab.txt: one token per line, numbered from 0; inner pieces begin with
  // "##". INVALID_ARGUMENT if a token occurs twice or [UNK] is missing.
  static absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> Make(std::string_view vocabulary, bool cased);

  void Encode(std::string_view text, Tokens* tokens) override;
  int64_t vocabulary() const override { return static_cast<int64_t>(numbers_.size()); }

  // The number of a token such as "[CLS]"; nullopt if the vocabulary does not have it.
  std::optional<uint32_t> Find(std::string_view token) const;

 private:
  void EncodeWord(std::string_view word, Tokens* tokens) const;
  bool AppendPieces(std::string_view word, Tokens* tokens) const;

  bool cased_ = false;
  uint32_t unknown_ = 0;
  size_t longest_bytes_ = 0;  // Bytes of the longest token.
  absl::flat_hash_map<std::string, uint32_t> numbers_;
  WordCache cache_;
};

}  // namespace ampd::text
