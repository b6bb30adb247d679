#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/table.h"
#include "data/text/tokenizer.h"

namespace ampd::text {

inline constexpr int64_t kMaxLabelledLineBytes = int64_t{16} << 20;  // Equals data/jsonl.h's kMaxJsonlLineBytes.

struct LabelledTextOptions {
  // Path of a file of texts with one label each. If the file begins with a JSON object, it has one object per line;
  // otherwise it is a table (table.h).
  std::string text;
  Quotes quotes = Quotes::kAuto;  // Meaning of quotation marks in a table.
  std::string text_field = "text";
  std::string label_field = "label";
  std::vector<std::string> classes;  // Names of the labels, numbered from 0; empty: labels are numbers.
  std::string destination;
  bool replace = false;
  Tokens prefix;  // Tokens added before every text.
  Tokens suffix;
  int64_t max_length = 0;  // Maximum tokens per text, with prefix and suffix; longer texts are cut; 0: unlimited.
  std::function<bool(int64_t num_read, int64_t num_bytes)> progress = [](int64_t, int64_t) { return true; };
};

struct LabelledTextSummary {
  int64_t num_texts = 0;
  int64_t num_tokens = 0;
  int64_t num_cut = 0;      // Texts that were longer than max_length.
  int64_t longest = 0;      // Tokens of the longest text in the output, with prefix and suffix.
  int64_t num_classes = 0;  // The highest label in the file plus one.
  bool is_json = false;
  TableFormat table;  // The detected format, if the file is a table.
};

// Tokenizes the texts of a file and writes them to `destination`, for the data source `jsonl`. The new file has one
// line per text: {"input_ids": [...], "label": n}, with the text's tokens and label. After an error, `destination` is
// as it was before the call. Errors:
// * INVALID_ARGUMENT: prefix and suffix leave no space for text within max_length.
// * DATA_LOSS: a line is malformed, has a column or a key twice, has no token, or has too many tokens for a job. The
//   message names the line.
// * ALREADY_EXISTS: `destination` exists, and `replace` is false.
absl::StatusOr<LabelledTextSummary> WriteLabelledText(const LabelledTextOptions& options, Tokenizer& tokenizer);

}  // namespace ampd::text
