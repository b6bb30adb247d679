#include <filesystem>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/data/data.h"
#include "client/commands/output_file.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/progress_line.h"
#include "client/terminal/standard_streams.h"
#include "data/text/byte_pair_tokenizer.h"
#include "data/text/labelled_text.h"
#include "data/text/token_file.h"
#include "data/text/word_piece_tokenizer.h"

namespace ampd::client {
namespace {

struct TokenizeOptions {
  std::string text;  // file to read
  std::string file;  // file to write
  // The file with the vocabulary: vocab.json if `merges` is set, otherwise BERT's vocab.txt. If empty, every byte is a
  // token.
  std::string vocabulary;
  std::string merges;
  bool cased = false;
  bool replace = false;
  std::string format;       // format of the file to write; empty: llm_c
  bool any_format = false;  // whether to accept a file that is not text, as bytes
  bool labelled = false;    // whether each text has a label
  std::string quotes;       // how cells are quoted: csv or none; empty: detected from the file
  std::string text_field;   // empty: text
  std::string label_field;  // empty: label
  std::string classes;
  std::optional<int64_t> max_length;  // 0: no maximum
};

constexpr int64_t kMaxVocabularyBytes = int64_t{64} << 20;

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::string> ReadNamed(const std::string& path) {
  AMPD_RETURN_IF_ERROR(CheckInputFile(path));
  auto content = ReadFile(path, kMaxVocabularyBytes);
  return content.ok() ? std::move(content) : WithPath(path, content.status());
}

// A tokenizer, and the tokens to put before and after each labelled text.
struct PreparedTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string name;
  text::Tokens prefix;
  text::Tokens suffix;
};

absl::StatusOr<PreparedTokenizer> PrepareBytePairs(const TokenizeOptions& options) {
  if (options.vocabulary.empty()) {
    return absl::InvalidArgumentError("--merges also needs --vocab; give it the vocab.json that belongs to the merges");
  }
  AMPD_ASSIGN_OR_RETURN(const std::string vocabulary, ReadNamed(options.vocabulary));
  AMPD_ASSIGN_OR_RETURN(const std::string merges, ReadNamed(options.merges));
  auto tokenizer = text::BytePairTokenizer::Make(vocabulary, merges);
  AMPD_RETURN_IF_ERROR(WithPath(options.vocabulary, tokenizer.status()));
  return PreparedTokenizer{
      .tokenizer = *std::move(tokenizer), .name = "GPT-2's byte pairs", .prefix = {}, .suffix = {}};
}

absl::StatusOr<PreparedTokenizer> PrepareWordPieces(const TokenizeOptions& options) {
  AMPD_ASSIGN_OR_RETURN(const std::string vocabulary, ReadNamed(options.vocabulary));
  auto tokenizer = text::WordPieceTokenizer::Make(vocabulary, options.cased);
  AMPD_RETURN_IF_ERROR(WithPath(options.vocabulary, tokenizer.status()));
  const auto begin = (*tokenizer)->Find("[CLS]");
  const auto end = (*tokenizer)->Find("[SEP]");
  if (options.labelled && !(begin.has_value() && end.has_value())) {
    return absl::InvalidArgumentError(absl::StrCat(
        options.vocabulary,
        ": the token [CLS] or [SEP] is missing, but --jsonl puts both around each text; use a BERT vocabulary"));
  }
  PreparedTokenizer prepared{.name = "BERT's word pieces", .prefix = {}, .suffix = {}};
  if (options.labelled) {
    prepared.prefix = {*begin};
    prepared.suffix = {*end};
  }
  prepared.tokenizer = *std::move(tokenizer);
  return prepared;
}

absl::StatusOr<PreparedTokenizer> Prepare(const TokenizeOptions& options) {
  if (options.cased && (options.vocabulary.empty() || !options.merges.empty())) {
    return absl::InvalidArgumentError("--cased is only for BERT's vocabularies; give --vocab without --merges");
  }
  if (!options.merges.empty()) {
    return PrepareBytePairs(options);
  }
  if (!options.vocabulary.empty()) {
    return PrepareWordPieces(options);
  }
  return PreparedTokenizer{.tokenizer = text::MakeByteTokenizer(), .name = "bytes", .prefix = {}, .suffix = {}};
}

text::TokenFileFormat FormatOf(const std::string& name) {
  return name == "uint16"   ? text::TokenFileFormat::kUint16
         : name == "uint32" ? text::TokenFileFormat::kUint32
                            : text::TokenFileFormat::kLlmC;
}

int WriteTokens(Session* session, const TokenizeOptions& options, const PreparedTokenizer& prepared,
                const std::function<bool(int64_t, int64_t)>& progress) {
  const auto written = text::WriteTokenFile({.text = options.text,
                                             .destination = options.file,
                                             .replace = options.replace,
                                             .any_format = options.any_format,
                                             .format = FormatOf(options.format),
                                             .progress = progress},
                                            *prepared.tokenizer);
  if (!written.ok()) {
    const absl::Status error = ErrorOfFile(options.file, written.status());
    const bool is_no_text = absl::IsDataLoss(error) && absl::EndsWith(error.message(), "no text");
    return session->Fail(is_no_text ? absl::DataLossError(absl::StrCat(
                                          error.message(), "; to make a token of each of its bytes: --any-format"))
                                    : error);
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTokens", static_cast<int64_t>(written->num_tokens)},
                              {"tokenBytes", static_cast<int64_t>(written->token_bytes)},
                              {"textBytes", static_cast<int64_t>(written->num_text_bytes)},
                              {"vocabulary", static_cast<int64_t>(prepared.tokenizer->vocabulary())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted("%s: %s tokens of %lld bytes each, from %s of text; kind of token: %s; vocab_size: %lld\n",
                   Printable(options.file).c_str(), FormatCount(written->num_tokens).c_str(),
                   static_cast<long long>(written->token_bytes), FormatBytes(written->num_text_bytes).c_str(),
                   prepared.name.c_str(), static_cast<long long>(prepared.tokenizer->vocabulary()));
  }
  if (written->is_json) {
    session->Note(absl::StrCat(Printable(options.text),
                               " holds JSON, so its braces and field names became tokens too; to read only the text "
                               "of each line, use --jsonl"));
  }
  return kExitOk;
}

// Describes the format in which the texts were read: "a table with tabs between columns and quotation marks as in CSV".
std::string FormatText(const text::LabelledTextSummary& written) {
  return written.is_json
             ? "JSON lines"
             : absl::StrCat("a table with ", written.table.delimiter == ',' ? "commas" : "tabs", " between columns",
                            written.table.quotes == text::Quotes::kCsv ? " and quotation marks as in CSV" : "");
}

int WriteLabelled(Session* session, const TokenizeOptions& options, const PreparedTokenizer& prepared,
                  const std::function<bool(int64_t, int64_t)>& progress) {
  text::LabelledTextOptions labelled{.text = options.text,
                                     .quotes = options.quotes == "csv"    ? text::Quotes::kCsv
                                               : options.quotes == "none" ? text::Quotes::kNone
                                                                          : text::Quotes::kAuto,
                                     .text_field = options.text_field.empty() ? "text" : options.text_field,
                                     .label_field = options.label_field.empty() ? "label" : options.label_field,
                                     .classes = {},
                                     .destination = options.file,
                                     .replace = options.replace,
                                     .prefix = prepared.prefix,
                                     .suffix = prepared.suffix,
                                     .max_length = options.max_length.value_or(0),
                                     .progress = progress};
  if (!options.classes.empty()) {
    labelled.classes = absl::StrSplit(options.classes, ',');
  }
  const auto written = text::WriteLabelledText(labelled, *prepared.tokenizer);
  if (!written.ok()) {
    return session->Fail(ErrorOfFile(options.file, written.status()));
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTexts", static_cast<int64_t>(written->num_texts)},
                              {"numTokens", static_cast<int64_t>(written->num_tokens)},
                              {"numClasses", static_cast<int64_t>(written->num_classes)},
                              {"longest", static_cast<int64_t>(written->longest)},
                              {"numCut", static_cast<int64_t>(written->num_cut)},
                              {"readAs", FormatText(*written)},
                              {"vocabulary", static_cast<int64_t>(prepared.tokenizer->vocabulary())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    WriteFormatted(
        "%s: %s texts in %lld classes; %s tokens in total, %lld in the longest text; %s texts were cut; kind of token: "
        "%s; vocab_size: %lld; the input was read as %s\n",
        Printable(options.file).c_str(), FormatCount(written->num_texts).c_str(),
        static_cast<long long>(written->num_classes), FormatCount(written->num_tokens).c_str(),
        static_cast<long long>(written->longest), FormatCount(written->num_cut).c_str(), prepared.name.c_str(),
        static_cast<long long>(prepared.tokenizer->vocabulary()), FormatText(*written).c_str());
  }
  return kExitOk;
}

// Returns INVALID_ARGUMENT if an option is given that does not apply to the kind of output.
absl::Status CheckKindOfOutput(const TokenizeOptions& options) {
  const std::pair<const char*, bool> of_labelled[] = {{"--text-field", !options.text_field.empty()},
                                                      {"--label-field", !options.label_field.empty()},
                                                      {"--classes", !options.classes.empty()},
                                                      {"--quotes", !options.quotes.empty()},
                                                      {"--max-length", options.max_length.has_value()}};
  for (const auto& [name, is_given] : of_labelled) {
    if (is_given && !options.labelled) {
      return absl::InvalidArgumentError(
          absl::StrCat(name, " needs --jsonl, which reads one text and its label per line"));
    }
  }
  if (options.labelled && (!options.format.empty() || options.any_format)) {
    return absl::InvalidArgumentError(options.any_format
                                          ? "--any-format cannot be combined with --jsonl, which reads only text"
                                          : "--format cannot be combined with --jsonl, which always writes JSON lines");
  }
  return absl::OkStatus();
}

absl::Status CheckFiles(const TokenizeOptions& options) {
  AMPD_RETURN_IF_ERROR(CheckInputFile(options.text));
  AMPD_RETURN_IF_ERROR(CheckInputsAreKept({options.text, options.vocabulary, options.merges}, options.file));
  AMPD_RETURN_IF_ERROR(CheckOutputFile(options.file, options.replace));
  std::error_code error;
  const bool is_empty = std::filesystem::is_regular_file(options.text, error) &&
                        std::filesystem::file_size(options.text, error) == 0 && !error;
  return is_empty ? absl::InvalidArgumentError(absl::StrCat(options.text, " is empty; there is no text to tokenize"))
                  : absl::OkStatus();
}

// Turns a text on this machine into a file of tokens, without a server.
int Tokenize(Session* session, const TokenizeOptions& options) {
  const Cancellation* const cancellation = session->CancelledByInterrupt();
  absl::Status allowed = CheckKindOfOutput(options);
  allowed.Update(CheckFiles(options));
  if (!allowed.ok()) {
    return session->Fail(allowed);
  }
  const auto prepared = Prepare(options);
  if (!prepared.ok()) {
    return session->Fail(prepared.status());
  }
  ProgressLine line(*session);
  const auto progress = [&](int64_t num_read, int64_t num_bytes) {
    line.Show(num_bytes > 0 ? static_cast<double>(num_read) / static_cast<double>(num_bytes) : 1);
    if (num_read == num_bytes) {
      line.Clear();
    }
    return !cancellation->cancelled();
  };
  return options.labelled ? WriteLabelled(session, options, *prepared, progress)
                          : WriteTokens(session, options, *prepared, progress);
}

std::string CheckClasses(const std::string& text) {
  std::set<absl::string_view> seen;
  for (const absl::string_view name : absl::StrSplit(text, ',')) {
    if (name.empty()) {
      return absl::StrCat("'", text, "' has a class without a name; write a list such as negative,positive");
    }
    if (!seen.insert(name).second) {
      return absl::StrCat("'", text, "' has the class '", name, "' twice");
    }
  }
  return "";
}

std::vector<Argument> ArgumentsOf(TokenizeOptions* options) {
  return {
      {.name = "text",
       .value = &options->text,
       .text = "TEXT",
       .help = "Text file to read, in UTF-8; each byte is a token unless --vocab is given",
       .required = true,
       .suggest = SuggestFiles,
       .is_path = true},
      OutputFile(&options->file),
      {.name = "--vocab",
       .value = &options->vocabulary,
       .text = "FILE",
       .help = "Vocabulary: GPT-2's vocab.json (with --merges) or BERT's vocab.txt",
       .suggest = SuggestFiles,
       .is_path = true},
      {.name = "--merges",
       .value = &options->merges,
       .text = "FILE",
       .help = "GPT-2's merges.txt, which belongs to the vocab.json",
       .suggest = SuggestFiles,
       .is_path = true},
      {.name = "--cased",
       .value = &options->cased,
       .help = "Keep capitals and accents (for BERT's cased vocabularies)"},
      {.name = "--format",
       .value = &options->format,
       .text = "FORMAT",
       .help = "Format of the file to write: llm_c (with a header), uint16 or uint32 (default llm_c)",
       .choices = {"llm_c", "uint16", "uint32"}},
      {.name = "--any-format",
       .value = &options->any_format,
       .help = "Also read a file that is not text, such as a picture: each of its bytes becomes a token"},
      {.name = "--jsonl",
       .value = &options->labelled,
       .help =
           "Read many texts with a label each, one per line (JSON lines, CSV or TSV), and write for each a JSON line "
           "with its tokens and label"},
      {.name = "--text-field",
       .value = &options->text_field,
       .text = "NAME",
       .help = "With --jsonl: name of the JSON field or column that has the text (default text)"},
      {.name = "--label-field",
       .value = &options->label_field,
       .text = "NAME",
       .help = "With --jsonl: name of the JSON field or column that has the label (default label)"},
      {.name = "--classes",
       .value = &options->classes,
       .text = "A,B",
       .help = "With --jsonl: names of the classes; the first is class 0 (default: labels are numbers)",
       .check = CheckClasses},
      {.name = "--quotes",
       .value = &options->quotes,
       .text = "MEANING",
       .help = "With --jsonl and a CSV or TSV file: 'csv' if quotation marks enclose cells, 'none' if quotation marks "
               "are part of the text (default: detected from the file)",
       .choices = {"csv", "none"}},
      {.name = "--max-length",
       .value = &options->max_length,
       .text = "N",
       .help = "With --jsonl: cut longer texts to N tokens (default 0 = no limit)",
       .check = CheckCount},
      Force(&options->replace)};
}

}  // namespace

Command TokenizeDataCommand() {
  const auto options = std::make_shared<TokenizeOptions>();
  return {.name = "tokenize",
          .help = "Write the tokens of a text to a file",
          .examples =
              "  ampctl data tokenize book.txt book.bin\n"
              "  ampctl data tokenize reviews.csv reviews.jsonl --jsonl --vocab vocab.txt --classes negative,positive",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = ArgumentsOf(options.get()),
          .run = [options](Session* session) { return Tokenize(session, *options); }};
}

}  // namespace ampd::client
