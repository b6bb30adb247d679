#include "data/jsonl.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/formats/json.h"
#include "base/status_macros.h"
#include "data/byte_source.h"
#include "data/byte_stream.h"
#include "nlohmann/json.hpp"

namespace ampd::data {
namespace {

constexpr size_t kReadBytes = size_t{1} << 20;

// Upper bounds for every model: a token is stored in 32 bits and a token type in 8, and the number of classes is an
// int32.
constexpr int64_t kMostTokens = int64_t{1} << 32;
constexpr int64_t kMostTypes = 256;
constexpr int64_t kMostClasses = std::numeric_limits<int32_t>::max();

// The members that a line's object may have.
enum Member { kTokens, kTypes, kLabel, kNumMembers, kNone = kNumMembers };
constexpr const char* kNames[] = {"input_ids", "token_type_ids", "label"};

// Receives the JSON parser's events for one line and stops at the first event that the format does not allow. Stores
// numbers without checking their ranges; LineChecker checks them afterwards.
class LineReader : public nlohmann::json_sax<nlohmann::json> {
 public:
  bool null() override { return Refuse("null"); }
  bool boolean(bool value) override { return Refuse(value ? "true" : "false"); }
  bool number_integer(number_integer_t value) override { return Refuse(absl::StrCat(value)); }
  bool number_float(number_float_t /*value*/, const string_t& text) override { return Refuse(text); }
  bool string(string_t& value) override { return Refuse(Quoted(value)); }
  bool binary(binary_t& /*value*/) override { return Refuse("bytes"); }

  bool number_unsigned(number_unsigned_t value) override {
    if (member_ == kNone || (member_ != kLabel) != in_list_ ||
        value > static_cast<uint64_t>(std::numeric_limits<int64_t>::max())) {
      return Refuse(absl::StrCat(value));
    }
    numbers_[member_].push_back(static_cast<int64_t>(value));
    return true;
  }
  bool start_object(size_t /*size*/) override { return std::exchange(in_line_, true) ? Refuse("an object") : true; }
  bool end_object() override { return true; }
  bool start_array(size_t /*size*/) override {
    const bool is_expected = in_line_ && !in_list_ && (member_ == kTokens || member_ == kTypes);
    in_list_ = true;
    return is_expected || Refuse("a list");
  }
  bool end_array() override {
    in_list_ = false;
    return true;
  }
  bool key(string_t& name) override {
    const auto* const known = std::find(std::begin(kNames), std::end(kNames), name);
    member_ = static_cast<Member>(known - std::begin(kNames));
    if (member_ == kNone) {
      return Fail(absl::StrCat(Quoted(name), " is no member of a line; input_ids, label and token_type_ids are"));
    }
    return !std::exchange(has_[member_], true) || Fail(absl::StrCat(kNames[member_], " is there twice"));
  }
  bool parse_error(size_t position, const std::string& /*token*/, const nlohmann::json::exception& /*error*/) override {
    return Fail(absl::StrCat("no JSON from byte ", position, " on"));
  }

  bool has(Member member) const { return has_[member]; }
  const std::vector<int64_t>& numbers(Member member) const { return numbers_[member]; }
  const std::string& why() const { return why_; }

 private:
  static std::string Quoted(const std::string& text) {
    constexpr size_t kShown = 40;
    return absl::StrCat("\"", absl::CEscape(text.substr(0, kShown)), text.size() > kShown ? "...\"" : "\"");
  }
  bool Refuse(const std::string& value) {
    return Fail(absl::StrCat(value, " where ",
                             member_ == kNone    ? "the line's object"
                             : member_ == kLabel ? "label, a number from 0 on,"
                                                 : absl::StrCat(kNames[member_], ", a list of numbers from 0 on,"),
                             " is"));
  }
  bool Fail(std::string why) {
    why_ = why_.empty() ? std::move(why) : why_;
    return false;
  }

  Member member_ = kNone;
  bool in_line_ = false;
  bool in_list_ = false;
  bool has_[kNumMembers] = {};
  std::vector<int64_t> numbers_[kNumMembers];
  std::string why_;
};

// Limits on the numbers in one member of a JSON line, such as its tokens: each number must be less than both. For
// tokens the limit of the model is the size of its vocabulary.
struct Bound {
  Member member = kTokens;
  std::optional<int64_t> of_model;
  int64_t of_every_model = 0;
  const char* of_what = "";               // The noun for these numbers in messages: "classes".
  std::optional<int64_t> exception = {};  // A number that is allowed although it is not below the limits.
};

// Describes the member's first number that is not below its bound; empty if there is none.
std::string TooLarge(const LineReader& line, const Bound& bound) {
  const std::vector<int64_t>& numbers = line.numbers(bound.member);
  const int64_t end = std::min(bound.of_model.value_or(bound.of_every_model), bound.of_every_model);
  const auto wrong = std::find_if(numbers.begin(), numbers.end(),
                                  [&](int64_t number) { return number >= end && number != bound.exception; });
  if (wrong == numbers.end()) {
    return "";
  }
  const std::string place = bound.member == kLabel ? "" : absl::StrCat("[", wrong - numbers.begin(), "]");
  return absl::StrCat(kNames[bound.member], place, " is ", *wrong, "; ",
                      bound.of_model == end ? absl::StrCat("the model has ", end, " ", bound.of_what)
                                            : absl::StrCat("a job takes at most ", end - 1));
}

std::string WhatIsWrong(const LineReader& line, const JsonlLimits& limits) {
  for (const Member member : {kTokens, kLabel}) {
    if (!line.has(member) && (member != kLabel || limits.needs_labels)) {
      return absl::StrCat(kNames[member], " is missing");
    }
  }
  const size_t count = line.numbers(kTokens).size();
  if (count == 0) {
    return "input_ids has no token";
  }
  if (line.has(kTypes) && line.numbers(kTypes).size() != count) {
    return absl::StrCat("token_type_ids has ", line.numbers(kTypes).size(), " numbers for ", count, " of input_ids");
  }
  for (const Bound& bound : {Bound{kTokens, limits.vocabulary, kMostTokens, "tokens in its vocabulary"},
                             Bound{kTypes, limits.num_types, kMostTypes, "types of tokens"},
                             Bound{kLabel, limits.num_classes, kMostClasses, "classes", limits.ignored_label}}) {
    if (std::string why = TooLarge(line, bound); !why.empty()) {
      return why;
    }
  }
  return "";
}

// Checks lines one by one, and passes each valid text to `visit`.
class LineChecker {
 public:
  using Visit = absl::FunctionRef<absl::Status(const TextLine&)>;

  LineChecker(const std::string& name, const JsonlLimits& limits, Visit visit)
      : name_(name), limits_(limits), visit_(visit) {}

  int64_t num_lines() const { return num_lines_; }
  bool is_full() const { return limits_.limit > 0 && num_lines_ == limits_.limit; }

  // Checks that the next line, of which `bytes` have been read so far, is not too long.
  absl::Status CheckLength(size_t bytes) const {
    return static_cast<int64_t>(bytes) <= kMaxJsonlLineBytes
               ? absl::OkStatus()
               : DataError(name_, absl::StrCat("line ", num_lines_ + 1, ": more than ", kMaxJsonlLineBytes, " bytes"));
  }

  absl::Status Add(std::string_view line) {
    AMPD_RETURN_IF_ERROR(CheckLength(line.size()));
    ++num_lines_;
    LineReader reader;
    std::string why = WhereJsonHasZero(line);  // The parser would take this byte for the end of the line.
    if (why.empty()) {
      const bool parsed = nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
      why = parsed ? WhatIsWrong(reader, limits_) : reader.why();
    }
    if (!why.empty()) {
      return DataError(name_, absl::StrCat("line ", num_lines_, ": ", why));
    }
    const auto label = reader.has(kLabel) ? std::optional(reader.numbers(kLabel)[0]) : std::nullopt;
    return visit_({reader.numbers(kTokens), reader.numbers(kTypes), label});
  }

 private:
  const std::string& name_;
  const JsonlLimits& limits_;
  Visit visit_;
  int64_t num_lines_ = 0;
};

// Collects the texts of a file in memory.
class Gatherer {
 public:
  Gatherer(std::string name, int64_t max_tokens) : name_(std::move(name)), max_tokens_(max_tokens) {}

  absl::Status Add(const TextLine& text) {
    const auto count = std::min(static_cast<int64_t>(text.tokens.size()), max_tokens_);
    texts_.tokens.insert(texts_.tokens.end(), text.tokens.begin(), text.tokens.begin() + count);
    if (!text.types.empty()) {
      texts_.types.insert(texts_.types.end(), text.types.begin(), text.types.begin() + count);
    }
    texts_.types.resize(texts_.tokens.size());
    texts_.ends.push_back(static_cast<int64_t>(texts_.tokens.size()));
    texts_.labels.push_back(text.label.value_or(0));
    texts_.num_cut += count < static_cast<int64_t>(text.tokens.size()) ? 1 : 0;
    return CheckSize();
  }

  Texts Finish() && { return std::move(texts_); }

 private:
  absl::Status CheckSize() const {
    const size_t bytes = texts_.tokens.size() * (sizeof(texts_.tokens[0]) + sizeof(texts_.types[0])) +
                         texts_.labels.size() * (sizeof(texts_.labels[0]) + sizeof(texts_.ends[0]));
    if (static_cast<int64_t>(bytes) > kMaxDatasetBytes) {
      return DataError(
          name_, absl::StrCat("its first ", texts_.labels.size(), " lines take ", bytes, " bytes in memory; at most ",
                              kMaxDatasetBytes, "; limit says how many are used"));
    }
    return absl::OkStatus();
  }

  std::string name_;
  int64_t max_tokens_ = 0;
  Texts texts_;
};

}  // namespace

absl::Status ForEachText(const DataFile& file, const JsonlLimits& limits,
                         absl::FunctionRef<absl::Status(const TextLine&)> visit) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  LineChecker lines(file.name, limits, visit);
  std::string pending;  // The beginning of a line whose end has not been read yet.
  std::string chunk(kReadBytes, '\0');
  for (size_t count = kReadBytes; count == kReadBytes && !lines.is_full();) {
    AMPD_ASSIGN_OR_RETURN(count, stream.Read(reinterpret_cast<uint8_t*>(chunk.data()), kReadBytes));
    std::string_view rest(chunk.data(), count);
    for (size_t end = rest.find('\n'); end != std::string_view::npos && !lines.is_full(); end = rest.find('\n')) {
      pending.append(rest.substr(0, end));
      AMPD_RETURN_IF_ERROR(lines.Add(std::exchange(pending, {})));
      rest.remove_prefix(end + 1);
    }
    pending.append(rest);
    if (!lines.is_full()) {
      AMPD_RETURN_IF_ERROR(lines.CheckLength(pending.size()));
    }
  }
  if (!pending.empty() && !lines.is_full()) {
    AMPD_RETURN_IF_ERROR(lines.Add(pending));
  }
  return lines.num_lines() == 0 ? DataError(file.name, "it has no line") : absl::OkStatus();
}

absl::StatusOr<Texts> ReadJsonl(const DataFile& file, const JsonlLimits& limits) {
  Gatherer gatherer(file.name, limits.max_tokens);
  AMPD_RETURN_IF_ERROR(ForEachText(file, limits, [&](const TextLine& text) { return gatherer.Add(text); }));
  return std::move(gatherer).Finish();
}

}  // namespace ampd::data
