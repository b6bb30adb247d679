#include "data/text/byte_pair_tokenizer.h"

#include <algorithm>
#include <functional>
#include <limits>
#include <queue>
#include <string>
#include <utility>
#include <vector>

#include "absl/container/flat_hash_set.h"
#include "absl/strings/str_cat.h"
#include "base/formats/json.h"
#include "base/status_macros.h"
#include "data/text/unicode.h"
#include "data/text/utf8.h"
#include "data/text/views.h"

namespace ampd::text {
namespace {

using Vocabulary = absl::flat_hash_map<std::string, uint32_t>;

constexpr uint32_t kNone = std::numeric_limits<uint32_t>::max();

// GPT-2's byte alphabet: the character that stands for each byte in the vocabulary. Printable bytes are their Latin-1
// characters, the others are the characters from U+0100 on.
std::array<std::string, 256> ByteAlphabet() {
  std::array<std::string, 256> alphabet;
  char32_t next = 256;
  for (char32_t byte = 0; byte < 256; ++byte) {
    const bool is_printable =
        (byte >= 33 && byte <= 126) || (byte >= 161 && byte <= 172) || (byte >= 174 && byte <= 255);
    AppendUtf8(is_printable ? byte : next++, &alphabet[byte]);
  }
  return alphabet;
}

absl::StatusOr<Vocabulary> ParseVocabulary(std::string_view text) {
  const auto json = ParseJson(text);
  if (!json.ok() || !json->is_object()) {
    return absl::InvalidArgumentError(absl::StrCat("the vocabulary is no JSON object of tokens and numbers",
                                                   json.ok() ? "" : absl::StrCat(": it ", json.status().message())));
  }
  Vocabulary vocabulary;
  absl::flat_hash_set<uint64_t> numbers;
  for (const auto& [token, number] : json->items()) {
    if (!number.is_number_unsigned() || number.get<uint64_t>() >= kNone) {
      return absl::InvalidArgumentError(absl::StrCat("token \"", token, "\" of the vocabulary has no number"));
    }
    if (!numbers.insert(number.get<uint64_t>()).second) {
      return absl::InvalidArgumentError(absl::StrCat("two tokens of the vocabulary have the number ", number.dump()));
    }
    vocabulary.emplace(token, number.get<uint32_t>());
  }
  return vocabulary;
}

enum class Kind { kSpace, kLetter, kNumber, kOther };

Kind KindOf(char32_t value) {
  return IsSpace(value)    ? Kind::kSpace
         : IsLetter(value) ? Kind::kLetter
         : IsNumber(value) ? Kind::kNumber
                           : Kind::kOther;
}

// The end of the run of code points of `kind` that starts at `begin`.
size_t RunEnd(std::string_view text, size_t begin, Kind kind) {
  while (begin < text.size()) {
    const CodePoint next = CodePointAt(text, begin);
    if (KindOf(next.value) != kind) {
      break;
    }
    begin += next.num_bytes;
  }
  return begin;
}

// The end of the run of white space that starts at `begin`. If a word follows, the run's last code point is left out,
// because it may belong to the word.
size_t SpaceEnd(std::string_view text, size_t begin) {
  size_t end = begin;
  size_t last = begin;
  while (end < text.size()) {
    const CodePoint next = CodePointAt(text, end);
    if (!IsSpace(next.value)) {
      return last == begin ? end : last;
    }
    last = end;
    end += next.num_bytes;
  }
  return end;
}

// A token in the linked list of a word's tokens.
struct Symbol {
  uint32_t token = 0;
  uint32_t previous = kNone;  // Indices of the neighbours in the word; kNone: none.
  uint32_t next = kNone;
};

// A pair of neighbouring tokens that may merge. Ignored if one of the tokens has been merged since.
struct Candidate {
  uint32_t rank;
  uint32_t place;  // Index of the left token.
  uint32_t left;
  uint32_t right;
  uint32_t merged;
  bool operator>(const Candidate& other) const { return std::pair(rank, place) > std::pair(other.rank, other.place); }
};

}  // namespace

size_t Gpt2WordEnd(std::string_view text, size_t begin) {
  const std::string_view rest = text.substr(begin, 3);
  if (rest[0] == '\'') {
    for (const std::string_view ending : {"'s", "'t", "'re", "'ve", "'m", "'ll", "'d"}) {
      if (rest.starts_with(ending)) {
        return begin + ending.size();
      }
    }
  }
  const CodePoint first = CodePointAt(text, begin);
  const bool may_lead = first.value == ' ' && begin + 1 < text.size();
  const Kind kind = KindOf(may_lead ? CodePointAt(text, begin + 1).value : first.value);
  return kind == Kind::kSpace ? SpaceEnd(text, begin) : RunEnd(text, begin + (may_lead ? 1 : 0), kind);
}

absl::StatusOr<std::unique_ptr<Tokenizer>> BytePairTokenizer::Make(std::string_view vocabulary,
                                                                   std::string_view merges) {
  AMPD_ASSIGN_OR_RETURN(const Vocabulary numbers, ParseVocabulary(vocabulary));
  const auto number_of = [&numbers](std::string_view token) {
    const auto found = numbers.find(ForAbsl(token));
    return found == numbers.end() ? kNone : found->second;
  };
  auto tokenizer = std::make_unique<BytePairTokenizer>();
  for (const auto& [token, number] : numbers) {
    tokenizer->vocabulary_ = std::max(tokenizer->vocabulary_, int64_t{number} + 1);
  }
  const std::array<std::string, 256> alphabet = ByteAlphabet();
  for (size_t byte = 0; byte < alphabet.size(); ++byte) {
    tokenizer->of_byte_[byte] = number_of(alphabet[byte]);
    if (tokenizer->of_byte_[byte] == kNone) {
      return absl::InvalidArgumentError(
          absl::StrCat("the vocabulary has no token for byte ", byte, ", \"", alphabet[byte], "\""));
    }
  }
  int64_t line_number = 0;
  for (std::string_view line : Split(merges, '\n')) {
    ++line_number;
    line = line.substr(0, line.find_last_not_of('\r') + 1);
    if (line.empty() || (line_number == 1 && line.starts_with("#version"))) {
      continue;
    }
    const std::vector<std::string_view> parts = Split(line, ' ');
    const uint32_t left = number_of(parts[0]);
    const uint32_t right = parts.size() == 2 ? number_of(parts[1]) : kNone;
    const uint32_t merged = parts.size() == 2 ? number_of(absl::StrCat(ForAbsl(parts[0]), ForAbsl(parts[1]))) : kNone;
    if (left == kNone || right == kNone || merged == kNone) {
      return absl::InvalidArgumentError(absl::StrCat("line ", line_number, " of the merges, \"", ForAbsl(line),
                                                     "\", is no two tokens that make a third of the vocabulary"));
    }
    const auto [there, is_new] =
        tokenizer->merges_.try_emplace(PairOf(left, right), Merge{static_cast<uint32_t>(line_number), merged});
    if (!is_new) {
      return absl::InvalidArgumentError(absl::StrCat("lines ", there->second.rank, " and ", line_number,
                                                     " of the merges are both \"", ForAbsl(line), "\""));
    }
  }
  return tokenizer;
}

void BytePairTokenizer::Encode(std::string_view text, Tokens* tokens) {
  for (size_t begin = 0; begin < text.size();) {
    const size_t end = Gpt2WordEnd(text, begin);
    const std::string_view word = text.substr(begin, end - begin);
    begin = end;
    if (const Tokens* const known = cache_.Find(word); known != nullptr) {
      tokens->insert(tokens->end(), known->begin(), known->end());
      continue;
    }
    const Tokens found = EncodeWord(word);
    tokens->insert(tokens->end(), found.begin(), found.end());
    cache_.Remember(word, found);
  }
}

// Merges with a priority queue in O(n log n) for n bytes, because a "word" may be a megabyte of one character.
Tokens BytePairTokenizer::EncodeWord(std::string_view word) const {
  std::vector<Symbol> symbols(word.size());
  std::priority_queue<Candidate, std::vector<Candidate>, std::greater<>> candidates;
  const auto consider = [&](uint32_t place) {
    const uint32_t next = place == kNone ? kNone : symbols[place].next;
    if (next == kNone) {
      return;
    }
    const auto found = merges_.find(PairOf(symbols[place].token, symbols[next].token));
    if (found != merges_.end()) {
      candidates.push({found->second.rank, place, symbols[place].token, symbols[next].token, found->second.token});
    }
  };
  for (size_t i = 0; i < word.size(); ++i) {
    symbols[i] = {.token = of_byte_[static_cast<unsigned char>(word[i])],
                  .previous = i == 0 ? kNone : static_cast<uint32_t>(i - 1),
                  .next = i + 1 == word.size() ? kNone : static_cast<uint32_t>(i + 1)};
  }
  for (size_t i = 0; i + 1 < word.size(); ++i) {
    consider(static_cast<uint32_t>(i));
  }
  while (!candidates.empty()) {
    const Candidate best = candidates.top();
    candidates.pop();
    Symbol& left = symbols[best.place];
    if (left.token != best.left || left.next == kNone || symbols[left.next].token != best.right) {
      continue;
    }
    Symbol& right = symbols[left.next];
    left.token = best.merged;
    left.next = std::exchange(right.next, kNone);
    right.token = kNone;  // The right token is now part of `left`.
    if (left.next != kNone) {
      symbols[left.next].previous = best.place;
    }
    consider(left.previous);
    consider(best.place);
  }
  Tokens tokens;
  for (uint32_t at = word.empty() ? kNone : 0; at != kNone; at = symbols[at].next) {
    tokens.push_back(symbols[at].token);
  }
  return tokens;
}

}  // namespace ampd::text
