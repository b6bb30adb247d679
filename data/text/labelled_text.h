#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "data/text/table.h"
#include "data/text/tokenizer.h"

namespace ampd::text {

inline constexpr int64_t kMaxLabelledLineBytes = int64_t{16} << 20;  // data/jsonl.h's kMaxJsonlLineBytes

struct LabelledTextOptions {
  // Path of a file of texts with a label each: JSON objects, one a line, where it begins with one, or a table
  // (table.h).
  std::string text;
  Quotes quotes = Quotes::kAuto;  // of a table
  std::string text_field = "text";
  std::string label_field = "label";
  std::vector<std::string> classes;  // names of labels, numbered from 0; none: labels are numbers
  std::string destination;
  bool replace = false;
  Tokens prefix;  // of every text
  Tokens suffix;
  int64_t max_length = 0;  // of a text's tokens, prefix and suffix included: what is over is cut; 0: any
  std::function<bool(int64_t num_read, int64_t num_bytes)> progress = [](int64_t, int64_t) { return true; };
};

struct LabelledTextSummary {
  int64_t num_texts = 0;
  int64_t num_tokens = 0;
  int64_t num_cut = 0;      // texts that were longer than max_length
  int64_t longest = 0;      // tokens of a text, when none is cut
  int64_t num_classes = 0;  // the highest label and one
  bool is_json = false;
  TableFormat table;  // that the file was read as, where it is one
};

// Writes what the data source `jsonl` reads: {"input_ids": [...], "label": n}, one a line. Nothing is left at
// `destination` by a failure: INVALID_ARGUMENT when prefix and suffix fill max_length, DATA_LOSS naming the line that
// is not as it must be, has a column or a key twice, or has no token or too many for a job, ALREADY_EXISTS.
absl::StatusOr<LabelledTextSummary> WriteLabelledText(const LabelledTextOptions& options, Tokenizer& tokenizer);

}  // namespace ampd::text
