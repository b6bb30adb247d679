#include <cstdio>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/data/data.h"
#include "client/commands/suggestions.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/progress_line.h"
#include "data/text/byte_pair_tokenizer.h"
#include "data/text/labelled_text.h"
#include "data/text/token_file.h"
#include "data/text/word_piece_tokenizer.h"

namespace ampd::client {
namespace {

struct TokenizeOptions {
  std::string text;        // file to read
  std::string file;        // file to write
  std::string vocabulary;  // file of the vocabulary: vocab.json if `merges` is set, otherwise BERT's vocab.txt; empty:
                           // every byte is a token
  std::string merges;
  bool cased = false;
  bool replace = false;
  std::string format = "llm_c";
  bool any_format = false;  // accept a file that is not text as bytes
  bool labelled = false;    // whether each text has a label
  std::string quotes;       // how cells are quoted: csv or none; empty: detected from the file
  std::string text_field = "text";
  std::string label_field = "label";
  std::string classes;
  int64_t max_length = 0;
};

constexpr int64_t kMaxVocabularyBytes = int64_t{64} << 20;

absl::Status WithPath(const std::string& path, const absl::Status& status) {
  return status.ok() ? status : absl::Status(status.code(), absl::StrCat(path, ": ", status.message()));
}

absl::StatusOr<std::string> ReadNamed(const std::string& path) {
  auto content = ReadFile(path, kMaxVocabularyBytes);
  return content.ok() ? std::move(content) : WithPath(path, content.status());
}

// A tokenizer, and the tokens that it puts before and after each labelled text.
struct PreparedTokenizer {
  std::unique_ptr<text::Tokenizer> tokenizer;
  std::string name;
  text::Tokens prefix;
  text::Tokens suffix;
};

absl::StatusOr<PreparedTokenizer> PrepareBytePairs(const TokenizeOptions& options) {
  if (options.vocabulary.empty()) {
    return absl::InvalidArgumentError("--merges needs --vocab, the vocab.json that belongs to it");
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
    return absl::InvalidArgumentError(
        absl::StrCat(options.vocabulary, ": has no [CLS] and [SEP], which must enclose each text"));
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
    return absl::InvalidArgumentError("--cased is for BERT's vocabularies: --vocab without --merges");
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
    return session->Fail(written.status());
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTokens", absl::StrCat(written->num_tokens)},
                              {"tokenBytes", absl::StrCat(written->token_bytes)},
                              {"textBytes", absl::StrCat(written->num_text_bytes)},
                              {"vocabulary", absl::StrCat(prepared.tokenizer->vocabulary())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::printf("%s: %s tokens of %lld bytes, of %s of text; %s, vocab_size %lld\n", Printable(options.file).c_str(),
                FormatCount(written->num_tokens).c_str(), static_cast<long long>(written->token_bytes),
                FormatBytes(written->num_text_bytes).c_str(), prepared.name.c_str(),
                static_cast<long long>(prepared.tokenizer->vocabulary()));
  }
  if (written->is_json) {
    session->Note(absl::StrCat(Printable(options.text),
                               " holds JSON, so its braces and names became tokens too; --jsonl reads "
                               "only the text of each line"));
  }
  return kExitOk;
}

// Returns the format in which the texts were read: "a table between tabs, quotation marks as in CSV".
std::string FormatText(const text::LabelledTextSummary& written) {
  return written.is_json
             ? "JSON lines"
             : absl::StrCat("a table between ", written.table.delimiter == ',' ? "commas" : "tabs",
                            written.table.quotes == text::Quotes::kCsv ? ", quotation marks as in CSV" : "");
}

int WriteLabelled(Session* session, const TokenizeOptions& options, const PreparedTokenizer& prepared,
                  const std::function<bool(int64_t, int64_t)>& progress) {
  text::LabelledTextOptions labelled{.text = options.text,
                                     .quotes = options.quotes == "csv"    ? text::Quotes::kCsv
                                               : options.quotes == "none" ? text::Quotes::kNone
                                                                          : text::Quotes::kAuto,
                                     .text_field = options.text_field,
                                     .label_field = options.label_field,
                                     .classes = {},
                                     .destination = options.file,
                                     .replace = options.replace,
                                     .prefix = prepared.prefix,
                                     .suffix = prepared.suffix,
                                     .max_length = options.max_length,
                                     .progress = progress};
  if (!options.classes.empty()) {
    labelled.classes = absl::StrSplit(options.classes, ',');
  }
  const auto written = text::WriteLabelledText(labelled, *prepared.tokenizer);
  if (!written.ok()) {
    return session->Fail(written.status());
  }
  const PlainFields fields = {{"file", options.file},
                              {"numTexts", absl::StrCat(written->num_texts)},
                              {"numTokens", absl::StrCat(written->num_tokens)},
                              {"numClasses", absl::StrCat(written->num_classes)},
                              {"longest", absl::StrCat(written->longest)},
                              {"numCut", absl::StrCat(written->num_cut)},
                              {"readAs", FormatText(*written)},
                              {"vocabulary", absl::StrCat(prepared.tokenizer->vocabulary())}};
  if (!PrintStructured(*session, fields) && !session->options().quiet) {
    std::printf(
        "%s: %s texts of %s tokens in %lld classes, the longest of %lld, %s cut; %s, vocab_size %lld; from %s\n",
        Printable(options.file).c_str(), FormatCount(written->num_texts).c_str(),
        FormatCount(written->num_tokens).c_str(), static_cast<long long>(written->num_classes),
        static_cast<long long>(written->longest), FormatCount(written->num_cut).c_str(), prepared.name.c_str(),
        static_cast<long long>(prepared.tokenizer->vocabulary()), FormatText(*written).c_str());
  }
  return kExitOk;
}

// Turns a text of this machine into a file of tokens, without a server.
int Tokenize(Session* session, const TokenizeOptions& options) {
  const Cancellation* const cancellation = session->CancelledByInterrupt();
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

std::vector<Argument> ArgumentsOf(TokenizeOptions* options) {
  return {{.name = "text",
           .value = &options->text,
           .text = "TEXT",
           .help = "UTF-8 text to read; its bytes are the tokens unless --vocab is given",
           .required = true,
           .check = CheckNotEmpty,
           .suggest = SuggestFiles},
          OutputFile(&options->file),
          {.name = "--vocab",
           .value = &options->vocabulary,
           .text = "FILE",
           .help = "Vocabulary: GPT-2's vocab.json (with --merges) or BERT's vocab.txt",
           .check = CheckNotEmpty,
           .suggest = SuggestFiles},
          {.name = "--merges",
           .value = &options->merges,
           .text = "FILE",
           .help = "GPT-2's merges.txt, which belongs to the vocab.json",
           .check = CheckNotEmpty,
           .suggest = SuggestFiles},
          {.name = "--cased",
           .value = &options->cased,
           .help = "Keep capitals and accents (for BERT's cased vocabularies)"},
          {.name = "--format",
           .value = &options->format,
           .text = "FORMAT",
           .help = "Format of the file: llm_c (with a header), uint16 or uint32 (default llm_c)",
           .choices = {"llm_c", "uint16", "uint32"}},
          {.name = "--any-format",
           .value = &options->any_format,
           .help = "Accept a file that is not text, such as a gzip file, as bytes"},
          {.name = "--jsonl",
           .value = &options->labelled,
           .help = "Read one text and its label per line; write JSON lines of tokens and label"},
          {.name = "--text-field",
           .value = &options->text_field,
           .text = "NAME",
           .help = "Column or JSON field that holds the text (default text)",
           .check = CheckNotEmpty},
          {.name = "--label-field",
           .value = &options->label_field,
           .text = "NAME",
           .help = "Column or JSON field that holds the label (default label)",
           .check = CheckNotEmpty},
          {.name = "--classes",
           .value = &options->classes,
           .text = "A,B",
           .help = "Names of the labels from 0 on, separated by commas (default: labels are numbers)",
           .check = CheckNotEmpty},
          {.name = "--quotes",
           .value = &options->quotes,
           .text = "MEANING",
           .help = "Meaning of quotation marks: csv (they enclose a cell) or none (they are text) (default: detected "
                   "from the file)",
           .choices = {"csv", "none"}},
          {.name = "--max-length",
           .value = &options->max_length,
           .text = "N",
           .help = "Maximum number of tokens of a text; longer ones are cut (default 0 = no maximum)",
           .check = CheckCount},
          Force(&options->replace)};
}

}  // namespace

Command TokenizeDataCommand() {
  const auto options = std::make_shared<TokenizeOptions>();
  return {.name = "tokenize",
          .help = "Write the tokens of a text to a file",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = ArgumentsOf(options.get()),
          .run = [options](Session* session) { return Tokenize(session, *options); }};
}

}  // namespace ampd::client
