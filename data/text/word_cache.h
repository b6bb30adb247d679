#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "data/text/tokenizer.h"
#include "data/text/views.h"

namespace ampd::text {

// Caches the tokens of words, because few words make up most of a text. The cache is bounded: when it is full, it keeps
// its words and accepts no further ones. Thread-compatible.
class WordCache {
 public:
  // The tokens of a word, valid until the next Remember; null if the word is not cached.
  const Tokens* Find(std::string_view word) const {
    const auto found = words_.find(ForAbsl(word));
    return found == words_.end() ? nullptr : &found->second;
  }

  void Remember(std::string_view word, const Tokens& tokens) {
    if (words_.size() < kMaxWords && word.size() <= kMaxWordBytes) {
      words_.emplace(word, tokens);
    }
  }

 private:
  static constexpr size_t kMaxWords = size_t{1} << 18;
  static constexpr size_t kMaxWordBytes = 64;

  absl::flat_hash_map<std::string, Tokens> words_;
};

}  // namespace ampd::text
