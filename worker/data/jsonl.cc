#include "worker/data/jsonl.h"

#include <algorithm>
#include <limits>
#include <string>
#include <string_view>
#include <utility>

#include "absl/strings/escaping.h"
#include "absl/strings/str_cat.h"
#include "base/status_macros.h"
#include "nlohmann/json.hpp"
#include "worker/data/byte_source.h"
#include "worker/data/byte_stream.h"

namespace ampd::data {
namespace {

constexpr size_t kChunkBytes = size_t{1} << 20;

// What a line is made of.
enum Member { kTokens, kTypes, kLabel, kNumMembers, kNone = kNumMembers };
constexpr const char* kNames[] = {"input_ids", "token_type_ids", "label"};

// Takes a line's events from the parser, and refuses the first one that does not belong there. Numbers are kept as they
// come; what they may be is checked behind.
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

// What is wrong with numbers that must be below `bound`; empty: nothing.
std::string TooLarge(const LineReader& line, Member member, int64_t bound, const char* of_what) {
  const std::vector<int64_t>& numbers = line.numbers(member);
  const auto wrong = std::find_if(numbers.begin(), numbers.end(), [bound](int64_t number) { return number >= bound; });
  if (wrong == numbers.end()) {
    return "";
  }
  const std::string place = member == kLabel ? "" : absl::StrCat("[", wrong - numbers.begin(), "]");
  return absl::StrCat(kNames[member], place, " is ", *wrong, "; the model has ", bound, " ", of_what);
}

std::string WhatIsWrong(const LineReader& line, const JsonlLimits& limits) {
  for (const Member member : {kTokens, kLabel}) {
    if (!line.has(member)) {
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
  for (std::string why : {TooLarge(line, kTokens, limits.vocabulary, "tokens in its vocabulary"),
                          TooLarge(line, kTypes, limits.num_types, "types of tokens"),
                          TooLarge(line, kLabel, limits.num_classes, "classes")}) {
    if (!why.empty()) {
      return why;
    }
  }
  return "";
}

// The texts of lines, as they come.
class Gatherer {
 public:
  Gatherer(std::string name, const JsonlLimits& limits) : name_(std::move(name)), limits_(limits) {}

  bool is_full() const { return limits_.limit > 0 && static_cast<int64_t>(texts_.labels.size()) == limits_.limit; }

  absl::Status Add(std::string_view line) {
    LineReader reader;
    const bool parsed = nlohmann::json::sax_parse(line.begin(), line.end(), &reader);
    const std::string why = parsed ? WhatIsWrong(reader, limits_) : reader.why();
    if (!why.empty()) {
      return DataError(name_, absl::StrCat("line ", texts_.labels.size() + 1, ": ", why));
    }
    Keep(reader);
    return CheckSize();
  }

  absl::StatusOr<Texts> Finish() && {
    if (texts_.labels.empty()) {
      return DataError(name_, "it has no line");
    }
    return std::move(texts_);
  }

 private:
  void Keep(const LineReader& line) {
    const std::vector<int64_t>& tokens = line.numbers(kTokens);
    const std::vector<int64_t>& types = line.numbers(kTypes);
    const auto count = std::min(static_cast<int64_t>(tokens.size()), limits_.max_tokens);
    texts_.tokens.insert(texts_.tokens.end(), tokens.begin(), tokens.begin() + count);
    if (line.has(kTypes)) {
      texts_.types.insert(texts_.types.end(), types.begin(), types.begin() + count);
    }
    texts_.types.resize(texts_.tokens.size());
    texts_.ends.push_back(static_cast<int64_t>(texts_.tokens.size()));
    texts_.labels.push_back(line.numbers(kLabel)[0]);
    texts_.num_cut += count < static_cast<int64_t>(tokens.size()) ? 1 : 0;
  }

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
  JsonlLimits limits_;
  Texts texts_;
};

}  // namespace

absl::StatusOr<Texts> ReadJsonl(const DataFile& file, const JsonlLimits& limits) {
  AMPD_ASSIGN_OR_RETURN(ByteStream stream, ByteStream::Open(file));
  Gatherer gatherer(file.name, limits);
  std::string pending;  // of a line whose end is not read yet
  std::string chunk(kChunkBytes, '\0');
  for (size_t count = kChunkBytes; count == kChunkBytes && !gatherer.is_full();) {
    AMPD_ASSIGN_OR_RETURN(count, stream.Read(reinterpret_cast<uint8_t*>(chunk.data()), kChunkBytes));
    std::string_view rest(chunk.data(), count);
    for (size_t end = rest.find('\n'); end != std::string_view::npos && !gatherer.is_full(); end = rest.find('\n')) {
      pending.append(rest.substr(0, end));
      AMPD_RETURN_IF_ERROR(gatherer.Add(std::exchange(pending, {})));
      rest.remove_prefix(end + 1);
    }
    pending.append(rest);
    if (static_cast<int64_t>(pending.size()) > kMaxJsonlLineBytes && !gatherer.is_full()) {
      return DataError(file.name, absl::StrCat("a line has more than ", kMaxJsonlLineBytes, " bytes"));
    }
  }
  if (!pending.empty() && !gatherer.is_full()) {
    AMPD_RETURN_IF_ERROR(gatherer.Add(pending));
  }
  return std::move(gatherer).Finish();
}

}  // namespace ampd::data
