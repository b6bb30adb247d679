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
//           | "label": n                      below the number of classes; optional unless labels are needed
//           | "token_type_ids": [n, ...]      optional; as many as there are tokens, each below the number of types
//
// The members of a line come in any order, each once; other members are rejected. Blanks are allowed as in JSON. The
// file is read strictly: even an empty line is an error. Errors have the reason DATA_ERROR and name the file, the line
// and the value.
namespace ampd::data {

// The maximum length of a line that the reader accepts. Equals kMaxLabelledLineBytes in data/text/labelled_text.h.
inline constexpr int64_t kMaxJsonlLineBytes = int64_t{16} << 20;

// The text of one line. Passed to ForEachText's `visit`, and valid only during that call.
struct TextLine {
  const std::vector<int64_t>& tokens;
  const std::vector<int64_t>& types;  // Token types; empty: the line gives none, and all are 0.
  std::optional<int64_t> label;       // Unset: the line gives none.
};

struct Texts {
  std::vector<uint32_t> tokens;  // Tokens of all texts, in order.
  std::vector<uint8_t> types;    // One per token; 0 if the line gives none.
  std::vector<int64_t> ends;     // For each text, the index in `tokens` after its last token.
  std::vector<int64_t> labels;   // One per text; 0 if the line gives none.
  int64_t num_cut = 0;           // Texts that were longer than max_tokens.
};

// Limits for reading. Whatever the model takes, tokens are below 2^32, types below 256, and labels below 2^31 - 1. If
// the model is unknown, for example when a file is inspected without a job, these are the only limits.
struct JsonlLimits {
  int64_t limit = 0;       // Number of lines to read; 0: all. Nothing after them is checked.
  int64_t max_tokens = 0;  // How many tokens of each text ReadJsonl keeps. The rest are only checked.
  // The next four members are properties of the model. Unset: the model is unknown.
  std::optional<int64_t> vocabulary;
  std::optional<int64_t> num_types;
  std::optional<int64_t> num_classes;
  std::optional<int64_t> ignored_label;  // One more label that is allowed: the model's loss leaves it out.
  bool needs_labels = true;              // False: lines may lack their label.
};

// Calls `visit` with each text. If `visit` returns an error, stops and returns that error. Uses memory for one line.
absl::Status ForEachText(const DataFile& file, const JsonlLimits& limits,
                         absl::FunctionRef<absl::Status(const TextLine&)> visit);

// Reads all texts. Keeps at most kMaxDatasetBytes in memory.
absl::StatusOr<Texts> ReadJsonl(const DataFile& file, const JsonlLimits& limits);

}  // namespace ampd::data
