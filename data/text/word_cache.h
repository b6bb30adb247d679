#pragma once

#include <cstddef>
#include <string>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "data/text/tokenizer.h"
#include "data/text/views.h"

namespace ampd::text {

// The tokens of words that were met before: few words are most of a text. Bounded: the first words that come stay.
// Thread-compatible.
class WordCache {
 public:
  // Null: not remembered. Valid until the next Remember.
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
