#include "data/text/word_piece_tokenizer.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "data/text/unicode.h"
#include "data/text/utf8.h"
#include "data/text/views.h"

namespace ampd::text {
namespace {

constexpr size_t kMaxWordCodePoints = 100;

// The ideographs, which BERT treats as Chinese: each of them is a separate word. Hangul, Hiragana and Katakana are not
// among them.
constexpr std::pair<char32_t, char32_t> kIdeographs[] = {{0x4E00, 0x9FFF},   {0x3400, 0x4DBF},   {0x20000, 0x2A6DF},
                                                         {0x2A700, 0x2B73F}, {0x2B740, 0x2B81F}, {0x2B820, 0x2CEAF},
                                                         {0xF900, 0xFAFF},   {0x2F800, 0x2FA1F}};

bool IsIdeograph(char32_t value) {
  return value >= 0x3400 && std::any_of(std::begin(kIdeographs), std::end(kIdeographs), [value](const auto& range) {
           return value >= range.first && value <= range.second;
         });
}

bool IsBreak(char32_t value) { return value == '\t' || value == '\n' || value == '\r' || value == ' '; }

bool IsDropped(char32_t value) {
  return value == 0 || value == 0xFFFD || (!IsBreak(value) && value != ' ' && IsControl(value));
}

// Whether the character is always a separate word. ASCII's symbols count as punctuation.
bool StandsAlone(char32_t value) {
  const bool is_alphanumeric =
      (value >= '0' && value <= '9') || (value >= 'A' && value <= 'Z') || (value >= 'a' && value <= 'z');
  return value < 0x80 ? value > ' ' && value < 0x7F && !is_alphanumeric : IsPunctuation(value);
}

// Returns the word in lower case and without accents.
std::string Folded(std::string_view word) {
  std::string folded;
  const bool is_ascii =
      std::all_of(word.begin(), word.end(), [](char byte) { return static_cast<unsigned char>(byte) < 0x80; });
  const std::string decomposed = is_ascii ? std::string(word) : Decomposed(word);
  for (size_t at = 0; at < decomposed.size();) {
    const CodePoint next = CodePointAt(decomposed, at);
    at += next.num_bytes;
    if (!IsAccent(next.value)) {
      AppendUtf8(Lower(next.value), &folded);
    }
  }
  return folded;
}

}  // namespace

absl::StatusOr<std::unique_ptr<WordPieceTokenizer>> WordPieceTokenizer::Make(std::string_view vocabulary, bool cased) {
  auto tokenizer = std::make_unique<WordPieceTokenizer>();
  tokenizer->cased_ = cased;
  if (vocabulary.ends_with('\n')) {
    vocabulary.remove_suffix(1);
  }
  for (std::string_view line : Split(vocabulary, '\n')) {
    if (line.ends_with('\r')) {
      line.remove_suffix(1);
    }
    const auto number = static_cast<uint32_t>(tokenizer->numbers_.size());
    if (const auto [there, is_new] = tokenizer->numbers_.try_emplace(std::string(line), number); !is_new) {
      return absl::InvalidArgumentError(absl::StrCat("lines ", there->second + 1, " and ", number + 1,
                                                     " of the vocabulary are both \"", ForAbsl(line), "\""));
    }
    tokenizer->longest_bytes_ = std::max(tokenizer->longest_bytes_, line.size());
  }
  const auto unknown = tokenizer->Find("[UNK]");
  if (!unknown.has_value()) {
    return absl::InvalidArgumentError("the vocabulary has no token [UNK]");
  }
  tokenizer->unknown_ = *unknown;
  return tokenizer;
}

std::optional<uint32_t> WordPieceTokenizer::Find(std::string_view token) const {
  const auto found = numbers_.find(ForAbsl(token));
  return found == numbers_.end() ? std::nullopt : std::optional(found->second);
}

void WordPieceTokenizer::Encode(std::string_view text, Tokens* tokens) {
  std::string word;
  const auto end_word = [&] {
    if (word.empty()) {
      return;
    }
    if (const Tokens* const known = cache_.Find(word); known != nullptr) {
      tokens->insert(tokens->end(), known->begin(), known->end());
    } else {
      Tokens found;
      EncodeWord(word, &found);
      tokens->insert(tokens->end(), found.begin(), found.end());
      cache_.Remember(word, found);
    }
    word.clear();
  };
  for (size_t at = 0; at < text.size();) {
    const CodePoint next = CodePointAt(text, at);
    const std::string_view bytes = text.substr(at, next.num_bytes);
    at += next.num_bytes;
    if (IsDropped(next.value)) {
      continue;
    }
    if (IsBreak(next.value) || IsSpace(next.value)) {
      end_word();
    } else if (IsIdeograph(next.value)) {
      end_word();
      word = bytes;
      end_word();
    } else {
      word += bytes;
    }
  }
  end_word();
}

// Encodes `word`, a text without white space. Unless `cased_`, the whole word is folded (lower case, no accents) first.
// It is then split at punctuation.
void WordPieceTokenizer::EncodeWord(std::string_view word, Tokens* tokens) const {
  const std::string folded = cased_ ? std::string(word) : Folded(word);
  size_t begin = 0;
  const auto end_part = [&](size_t end) {
    if (end > begin && !AppendPieces(std::string_view(folded).substr(begin, end - begin), tokens)) {
      tokens->push_back(unknown_);
    }
  };
  for (size_t at = 0; at < folded.size();) {
    const CodePoint next = CodePointAt(folded, at);
    const size_t end = at + next.num_bytes;
    if (StandsAlone(next.value)) {
      end_part(at);
      begin = at;
      end_part(end);
      begin = end;
    }
    at = end;
  }
  end_part(folded.size());
}

// Cuts the word into pieces of the vocabulary and appends their numbers. If the vocabulary lacks a piece, or the word
// has more than 100 code points, returns false and appends nothing.
bool WordPieceTokenizer::AppendPieces(std::string_view word, Tokens* tokens) const {
  std::vector<size_t> ends;  // The positions in `word` at which its code points end.
  for (size_t at = 0; at < word.size() && ends.size() <= kMaxWordCodePoints;) {
    at += CodePointAt(word, at).num_bytes;
    ends.push_back(at);
  }
  if (ends.size() > kMaxWordCodePoints) {
    return false;
  }
  const size_t num_before = tokens->size();
  size_t begin = 0;
  for (auto first = ends.begin(); first != ends.end();) {
    auto last = ends.end();
    std::optional<uint32_t> piece;
    for (; last != first && !piece.has_value(); --last) {
      const size_t size = *(last - 1) - begin;
      if (size + (begin > 0 ? 2 : 0) <= longest_bytes_) {
        const std::string_view part = word.substr(begin, size);
        piece = begin > 0 ? Find(absl::StrCat("##", ForAbsl(part))) : Find(part);
      }
    }
    if (!piece.has_value()) {
      tokens->resize(num_before);
      return false;
    }
    tokens->push_back(*piece);
    begin = *last;  // The loop has decremented `last` once more, so `*last` is the end of the piece.
    first = last + 1;
  }
  return true;
}

}  // namespace ampd::text
