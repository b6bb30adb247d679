#include "data/text/labelled_text.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/formats/json.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "data/text/text_file.h"
#include "data/text/views.h"

namespace ampd::text {
namespace {

constexpr int64_t kMaxClasses = int64_t{1} << 20;

struct Labelled {
  std::string text;
  int64_t label = 0;
};

// Converts rows of a table and lines of JSON to texts and labels. Errors do not name the line; the caller adds its
// number.
class LabelledReader {
 public:
  explicit LabelledReader(const LabelledTextOptions& options) : options_(options) {}

  // Finds the columns of the text and the label. `names` is the first row of the table.
  absl::Status ReadHeading(const std::vector<std::string>& names) {
    num_columns_ = names.size();
    for (auto name = names.begin(); name != names.end(); ++name) {
      if (std::find(names.begin(), name, *name) != name) {
        return absl::DataLossError(absl::StrCat("two columns are named \"", *name, "\""));
      }
    }
    for (const auto& [field, column] :
         {std::pair(&options_.text_field, &text_column_), std::pair(&options_.label_field, &label_column_)}) {
      const auto found = std::find(names.begin(), names.end(), *field);
      if (found == names.end()) {
        return absl::DataLossError(
            absl::StrCat("no column is named \"", *field, "\"; the first line has ", absl::StrJoin(names, ", ")));
      }
      *column = static_cast<size_t>(found - names.begin());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Labelled> ReadRow(const std::vector<std::string>& cells) const {
    if (cells.size() != num_columns_) {
      return absl::DataLossError(absl::StrCat("has ", cells.size(), " columns; the first line has ", num_columns_));
    }
    AMPD_ASSIGN_OR_RETURN(const int64_t label, LabelOf(cells[label_column_]));
    return Labelled{cells[text_column_], label};
  }

  absl::StatusOr<Labelled> ReadJson(std::string_view line) const {
    const auto parsed = ParseJson(line);
    if (absl::IsAlreadyExists(parsed.status())) {
      return absl::DataLossError(parsed.status().message());
    }
    const nlohmann::json json = parsed.value_or(nlohmann::json());
    const auto text = json.is_object() ? json.find(options_.text_field) : json.end();
    const auto label = json.is_object() ? json.find(options_.label_field) : json.end();
    if (!json.is_object() || text == json.end() || !text->is_string() || label == json.end() ||
        !(label->is_string() || label->is_number_integer())) {
      return absl::DataLossError(absl::StrCat("is no JSON object with a string \"", options_.text_field,
                                              "\" and a label \"", options_.label_field, "\"",
                                              parsed.ok() ? "" : absl::StrCat(": it ", parsed.status().message())));
    }
    AMPD_ASSIGN_OR_RETURN(const int64_t number,
                          LabelOf(label->is_string() ? label->get<std::string>() : label->dump()));
    return Labelled{text->get<std::string>(), number};
  }

 private:
  absl::StatusOr<int64_t> LabelOf(std::string_view text) const {
    int64_t number = 0;
    if (!options_.classes.empty()) {
      const auto found = std::find(options_.classes.begin(), options_.classes.end(), text);
      number = found == options_.classes.end() ? -1 : found - options_.classes.begin();
    } else if (!absl::SimpleAtoi(ForAbsl(text), &number) || number >= kMaxClasses) {
      number = -1;
    }
    if (number < 0) {
      return absl::DataLossError(absl::StrCat("label \"", ForAbsl(text.substr(0, 40)), "\" is ",
                                              options_.classes.empty()
                                                  ? absl::StrCat("no number from 0 to ", kMaxClasses - 1,
                                                                 "; --classes gives the names of labels that are words")
                                                  : absl::StrCat("none of ", absl::StrJoin(options_.classes, ", "))));
    }
    return number;
  }

  const LabelledTextOptions& options_;
  size_t num_columns_ = 0;
  size_t text_column_ = 0;
  size_t label_column_ = 0;
};

// Writes a text's tokens and its label as a line in the format that a job reads. Errors do not name the text's line;
// the caller adds its number.
absl::StatusOr<std::string> LineOf(const Tokens& tokens, int64_t label) {
  if (tokens.empty()) {
    return absl::DataLossError("its text has no token; a job takes texts of one or more");
  }
  std::string line = absl::StrCat("{\"input_ids\": [", absl::StrJoin(tokens, ", "), "], \"label\": ", label, "}");
  if (static_cast<int64_t>(line.size()) > kMaxLabelledLineBytes) {
    return absl::DataLossError(absl::StrCat("has ", tokens.size(), " tokens in a line of ", line.size(),
                                            " bytes; a job reads at most ", kMaxLabelledLineBytes,
                                            "; --max-length cuts texts"));
  }
  line += '\n';
  return line;
}

// Encodes one text, with the prefix before and the suffix after its tokens. Updates the summary.
Tokens TokensOf(const std::string& text, const LabelledTextOptions& options, Tokenizer& tokenizer,
                LabelledTextSummary& summary) {
  Tokens tokens = options.prefix;
  tokenizer.Encode(text, &tokens);
  const auto room = static_cast<size_t>(options.max_length) - options.suffix.size();
  const bool is_cut = options.max_length > 0 && tokens.size() > room;
  if (is_cut) {
    tokens.resize(room);
  }
  tokens.insert(tokens.end(), options.suffix.begin(), options.suffix.end());
  summary.num_cut += is_cut ? 1 : 0;
  summary.longest = std::max(summary.longest, static_cast<int64_t>(tokens.size()));
  summary.num_tokens += static_cast<int64_t>(tokens.size());
  ++summary.num_texts;
  return tokens;
}

// Writes the output file text by text.
class Writer {
 public:
  Writer(const LabelledTextOptions& options, Tokenizer& tokenizer, PendingFile out)
      : options_(options), tokenizer_(tokenizer), out_(std::move(out)) {}

  // Writes one text, or returns the error in `labelled`. `place` names the text's line for error messages.
  absl::Status Add(const std::string& place, const absl::StatusOr<Labelled>& labelled, const TextFile& file) {
    AMPD_RETURN_IF_ERROR(WithPrefix(place, labelled.status()));
    const Tokens tokens = TokensOf(labelled->text, options_, tokenizer_, summary_);
    summary_.num_classes = std::max(summary_.num_classes, labelled->label + 1);
    const auto written = LineOf(tokens, labelled->label);
    AMPD_RETURN_IF_ERROR(WithPrefix(place, written.status()));
    AMPD_RETURN_IF_ERROR(WithPrefix(options_.destination, out_.Append(*written)));
    return options_.progress(file.num_read(), file.num_bytes()) ? absl::OkStatus() : absl::CancelledError("stopped");
  }

  absl::StatusOr<LabelledTextSummary> Finish() {
    if (summary_.num_texts == 0) {
      return absl::DataLossError(absl::StrCat(options_.text, ": has no text"));
    }
    AMPD_RETURN_IF_ERROR(WithPrefix(options_.destination, out_.Commit()));
    return summary_;
  }

  LabelledTextSummary& summary() { return summary_; }

 private:
  const LabelledTextOptions& options_;
  Tokenizer& tokenizer_;
  PendingFile out_;
  LabelledTextSummary summary_;
};

absl::Status AddTable(const LabelledTextOptions& options, TextFile& file, Writer& writer) {
  TableFormat& format = writer.summary().table;
  AMPD_ASSIGN_OR_RETURN(format, FormatOfTable(options.text, options.quotes));
  TableReader table(&file, format);
  LabelledReader reader(options);
  std::vector<std::string> cells;
  for (bool is_heading = true;; is_heading = false) {
    const absl::Status read = table.Next(&cells);
    const std::string place = absl::StrCat(options.text, ":", table.line());
    // An error that begins with the file's path already names the place of the fault. To any other error, add `place`.
    AMPD_RETURN_IF_ERROR(absl::StartsWith(read.message(), options.text) ? read : WithPrefix(place, read));
    if (cells.empty()) {
      return absl::OkStatus();
    }
    AMPD_RETURN_IF_ERROR(is_heading ? WithPrefix(place, reader.ReadHeading(cells))
                                    : writer.Add(place, reader.ReadRow(cells), file));
  }
}

absl::Status AddJsonLines(const LabelledTextOptions& options, TextFile& file, Writer& writer) {
  writer.summary().is_json = true;
  const LabelledReader reader(options);
  for (int64_t line_number = 1;; ++line_number) {
    bool found = false;
    AMPD_ASSIGN_OR_RETURN(const std::string_view line, file.NextLine(&found));
    if (!found) {
      return absl::OkStatus();
    }
    if (!line.empty()) {
      AMPD_RETURN_IF_ERROR(writer.Add(absl::StrCat(options.text, ":", line_number), reader.ReadJson(line), file));
    }
  }
}

}  // namespace

absl::StatusOr<LabelledTextSummary> WriteLabelledText(const LabelledTextOptions& options, Tokenizer& tokenizer) {
  const auto num_around = static_cast<int64_t>(options.prefix.size() + options.suffix.size());
  if (options.max_length > 0 && options.max_length <= num_around) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a length of ", options.max_length, " leaves no room for text beside ", num_around, " tokens around it"));
  }
  AMPD_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(options.text));
  auto out = PendingFile::Create(options.destination, options.replace);
  AMPD_RETURN_IF_ERROR(WithPrefix(options.destination, out.status()));
  Writer writer(options, tokenizer, *std::move(out));
  AMPD_RETURN_IF_ERROR(file.is_json() ? AddJsonLines(options, file, writer) : AddTable(options, file, writer));
  return writer.Finish();
}

}  // namespace ampd::text
