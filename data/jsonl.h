#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "data/data_file.h"

// Texts of a class each, plain or gzip, one a line:
//
//   file  := line* last?                      last: a line without its newline
//   line  := '{' member (',' member)* '}' '\n'
//   member := "input_ids": [n, ...]           the text's tokens, at least one; each below the vocabulary's size
//           | "label": n                      below the number of classes
//           | "token_type_ids": [n, ...]      optional; as many as there are tokens, each below the number of types
//
// Members come in any order, each once; there are no others. Lines are JSON in all else, blanks included. Read
// strictly: an empty line is an error too. Errors have the reason DATA_ERROR and name the file, the line and the value.
namespace ampd::data {

inline constexpr int64_t kMaxJsonlLineBytes = int64_t{16} << 20;  // data/text/labelled_text.h's kMaxLabelledLineBytes

// Of one line, which it does not outlive.
struct TextLine {
  const std::vector<int64_t>& tokens;
  const std::vector<int64_t>& types;  // of the tokens; empty: the line gives none, which means 0
  int64_t label = 0;
};

struct Texts {
  std::vector<uint32_t> tokens;  // of all texts, one behind the other
  std::vector<uint8_t> types;    // one a token; 0 where a line gives none
  std::vector<int64_t> ends;     // of each text, in tokens
  std::vector<int64_t> labels;   // of each text
  int64_t num_cut = 0;           // texts that were longer than max_tokens
};

// Where the model is not known, as to whoever looks at a file alone, numbers are held to what any model could take:
// tokens below 2^32, types below 256, labels below 2^31 - 1.
struct JsonlLimits {
  int64_t limit = 0;       // of lines; 0: all. What is behind them is not looked at
  int64_t max_tokens = 0;  // of a text that ReadJsonl keeps, the first ones; the others are checked all the same
  // Of the model; unset: not known.
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> num_types;  // at most 256
  std::optional<int64_t> num_classes;
};

// Hands each text to `visit`, whose first error ends it and is returned. Takes memory for one line.
absl::Status ForEachText(const DataFile& file, const JsonlLimits& limits,
                         absl::FunctionRef<absl::Status(const TextLine&)> visit);

// All of them. At most kMaxDatasetBytes are kept.
absl::StatusOr<Texts> ReadJsonl(const DataFile& file, const JsonlLimits& limits);

}  // namespace ampd::data
