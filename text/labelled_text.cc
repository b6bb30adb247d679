#include "text/labelled_text.h"

#include <algorithm>
#include <limits>
#include <string_view>
#include <utility>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/pending_file.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "text/text_file.h"
#include "text/views.h"

namespace ampd::text {
namespace {

constexpr int64_t kMaxClasses = int64_t{1} << 20;

struct Labelled {
  std::string text;
  int64_t label = 0;
};

// Turns lines into texts and labels. Errors do not name the line.
class LineReader {
 public:
  explicit LineReader(const LabelledTextOptions& options) : options_(options) {}

  // Of a file of columns, its first line.
  absl::Status ReadHeading(std::string_view line) {
    const std::vector<std::string_view> names = Split(line, '\t');
    num_columns_ = names.size();
    for (const auto& [field, column] :
         {std::pair(&options_.text_field, &text_column_), std::pair(&options_.label_field, &label_column_)}) {
      const auto found = std::find(names.begin(), names.end(), *field);
      if (found == names.end()) {
        return absl::DataLossError(
            absl::StrCat("no column is named \"", *field, "\"; the first line is \"", ForAbsl(line), "\""));
      }
      *column = static_cast<size_t>(found - names.begin());
    }
    return absl::OkStatus();
  }

  absl::StatusOr<Labelled> Read(std::string_view line) const {
    return options_.is_json ? ReadJson(line) : ReadRow(line);
  }

 private:
  absl::StatusOr<Labelled> ReadRow(std::string_view line) const {
    const std::vector<std::string_view> cells = Split(line, '\t');
    if (cells.size() != num_columns_) {
      return absl::DataLossError(absl::StrCat("has ", cells.size(), " columns; the first line has ", num_columns_));
    }
    AMPD_ASSIGN_OR_RETURN(const int64_t label, LabelOf(cells[label_column_]));
    return Labelled{std::string(cells[text_column_]), label};
  }

  absl::StatusOr<Labelled> ReadJson(std::string_view line) const {
    const auto json = nlohmann::json::parse(line, nullptr, /*allow_exceptions=*/false);
    const auto text = json.is_object() ? json.find(options_.text_field) : json.end();
    const auto label = json.is_object() ? json.find(options_.label_field) : json.end();
    if (!json.is_object() || text == json.end() || !text->is_string() || label == json.end() ||
        !(label->is_string() || label->is_number_integer())) {
      return absl::DataLossError(absl::StrCat("is no JSON object with a string \"", options_.text_field,
                                              "\" and a label \"", options_.label_field, "\""));
    }
    AMPD_ASSIGN_OR_RETURN(const int64_t number,
                          LabelOf(label->is_string() ? label->get<std::string>() : label->dump()));
    return Labelled{text->get<std::string>(), number};
  }

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

// The tokens of a text and its label as a job reads them. Errors do not name the line that they are of.
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

absl::Status Named(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

// The tokens of one text between prefix and suffix, and what is told of them.
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

}  // namespace

absl::StatusOr<LabelledTextSummary> WriteLabelledText(const LabelledTextOptions& options, Tokenizer& tokenizer) {
  const auto num_around = static_cast<int64_t>(options.prefix.size() + options.suffix.size());
  if (options.max_length > 0 && options.max_length <= num_around) {
    return absl::InvalidArgumentError(absl::StrCat(
        "a length of ", options.max_length, " leaves no room for text beside ", num_around, " tokens around it"));
  }
  AMPD_ASSIGN_OR_RETURN(TextFile file, TextFile::Open(options.text));
  auto out = PendingFile::Create(options.destination, options.replace);
  AMPD_RETURN_IF_ERROR(Named(options.destination, out.status()));
  LineReader reader(options);
  LabelledTextSummary summary;
  int64_t line_number = 0;
  while (true) {
    bool found = false;
    AMPD_ASSIGN_OR_RETURN(const std::string_view line, file.NextLine(&found));
    if (!found) {
      break;
    }
    const std::string place = absl::StrCat(options.text, ":", ++line_number);
    if (line_number == 1 && !options.is_json) {
      AMPD_RETURN_IF_ERROR(Named(place, reader.ReadHeading(line)));
      continue;
    }
    if (line.empty()) {
      continue;
    }
    const auto labelled = reader.Read(line);
    AMPD_RETURN_IF_ERROR(Named(place, labelled.status()));
    const Tokens tokens = TokensOf(labelled->text, options, tokenizer, summary);
    summary.num_classes = std::max(summary.num_classes, labelled->label + 1);
    const auto written = LineOf(tokens, labelled->label);
    AMPD_RETURN_IF_ERROR(Named(place, written.status()));
    AMPD_RETURN_IF_ERROR(Named(options.destination, out->Append(*written)));
    if (!options.progress(file.num_read(), file.num_bytes())) {
      return absl::CancelledError("stopped");
    }
  }
  if (summary.num_texts == 0) {
    return absl::DataLossError(absl::StrCat(options.text, ": has no text"));
  }
  AMPD_RETURN_IF_ERROR(Named(options.destination, out->Commit()));
  return summary;
}

}  // namespace ampd::text
