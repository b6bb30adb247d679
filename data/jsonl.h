#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "absl/functional/function_ref.h"
#include "absl/status/statusor.h"
#include "data/data_file.h"

// Texts with one class each, plain or gzip, one per line:
//
//   file  := line* last?                      last: a line without its newline
//   line  := '{' member (',' member)* '}' '\n'
//   member := "input_ids": [n, ...]           the text's tokens, at least one; each below the vocabulary's size
//           | "label": n                      below the number of classes
//           | "token_type_ids": [n, ...]      optional; as many as there are tokens, each below the number of types
//
// Members come in any order, each once; others are rejected. Apart from that, lines are JSON, including blanks. The
// file is read strictly: even an empty line is an error. Errors have the reason DATA_ERROR and name the file, the line
// and the value.
namespace ampd::data {

// Equals kMaxLabelledLineBytes in data/text/labelled_text.h.
inline constexpr int64_t kMaxJsonlLineBytes = int64_t{16} << 20;

// The text of one line. Valid only as long as that line.
struct TextLine {
  const std::vector<int64_t>& tokens;
  const std::vector<int64_t>& types;  // Types of the tokens; empty: the line has none, which means 0.
  int64_t label = 0;
};

struct Texts {
  std::vector<uint32_t> tokens;  // Tokens of all texts, in order.
  std::vector<uint8_t> types;    // One per token; 0 if the line has none.
  std::vector<int64_t> ends;     // End of each text, in tokens.
  std::vector<int64_t> labels;   // One per text.
  int64_t num_cut = 0;           // Texts that were longer than max_tokens.
};

// Limits for reading. If the model is unknown, as for someone who inspects a file alone, numbers must fit any model:
// tokens below 2^32, types below 256, labels below 2^31 - 1.
struct JsonlLimits {
  int64_t limit = 0;       // Number of lines to read; 0: all. Nothing after them is checked.
  int64_t max_tokens = 0;  // First tokens of a text that ReadJsonl keeps. The others are checked as well.
  // Limits of the model; unset: unknown.
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> num_types;  // At most 256.
  std::optional<int64_t> num_classes;
};

// Calls `visit` with each text; its first error stops the reading and is returned. Uses memory for one line.
absl::Status ForEachText(const DataFile& file, const JsonlLimits& limits,
                         absl::FunctionRef<absl::Status(const TextLine&)> visit);

// Reads all texts. At most kMaxDatasetBytes are kept.
absl::StatusOr<Texts> ReadJsonl(const DataFile& file, const JsonlLimits& limits);

}  // namespace ampd::data
