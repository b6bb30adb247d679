#include "client/commands/filter_meant.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/commands/filter_words.h"

namespace ampd::client {
namespace {

enum class Kind { kText, kSign, kAnd, kOr, kNot, kComma, kPipe, kOpen, kClose, kEnd };

struct Token {
  Kind kind = Kind::kEnd;
  std::string text;
  bool is_quoted = false;
  bool has_blank_before = false;
};

constexpr std::string_view kBlanks = " \t\r\n";
// Signs between a column and a value. A longer sign comes before its beginnings.
constexpr std::string_view kSigns[] = {"==", "=~", "!=", "!~", "<>", "<=", ">=", "=", "<", ">", "~"};

// Splits a filter into tokens. Words such as "in" stay texts.
std::vector<Token> Split(std::string_view text) {
  std::vector<Token> tokens;
  bool has_blank = false;
  const auto add = [&](Kind kind, size_t size, bool is_quoted = false) {
    const size_t quotes = is_quoted ? 1 : 0;
    const std::string_view inner = text.substr(quotes, size - (is_quoted && size > 1 ? 2 : 0));
    tokens.push_back({kind, std::string(inner), is_quoted, has_blank});
    text.remove_prefix(size);
    has_blank = false;
  };
  while (!text.empty()) {
    const bool is_value = !tokens.empty() && tokens.back().kind == Kind::kSign;
    const auto* const sign = std::find_if(std::begin(kSigns), std::end(kSigns),
                                          [&text](std::string_view one) { return text.starts_with(one); });
    if (kBlanks.find(text.front()) != std::string_view::npos) {
      text.remove_prefix(1);
      has_blank = true;
    } else if (text.front() == '"' || text.front() == '\'') {
      const size_t end = text.find(text.front(), 1);
      if (end == std::string_view::npos) {
        text.remove_prefix(1);  // A quote that is never closed stands for nothing.
        continue;
      }
      add(Kind::kText, end + 1, /*is_quoted=*/true);
    } else if (text.starts_with("&&") || text.starts_with("||")) {
      add(text.front() == '&' ? Kind::kAnd : Kind::kOr, 2);
    } else if (text.front() == '&' || text.front() == ';') {
      add(Kind::kAnd, 1);
    } else if (text.front() == '|' || text.front() == ',') {
      add(text.front() == '|' ? Kind::kPipe : Kind::kComma, 1);
    } else if (text.front() == '(' || text.front() == ')') {
      add(text.front() == '(' ? Kind::kOpen : Kind::kClose, 1);
    } else if (sign != std::end(kSigns)) {
      add(Kind::kSign, sign->size());
    } else if (text.front() == '!') {
      const bool is_sign = !has_blank && !tokens.empty() && tokens.back().kind == Kind::kText;  // as in state!running
      add(is_sign ? Kind::kSign : Kind::kNot, 1);
    } else if (text.front() == ':' && !is_value && !tokens.empty() && tokens.back().kind == Kind::kText) {
      add(Kind::kSign, 1);
    } else {
      const std::string_view ends = is_value ? " \t\r\n\"'()&|,;" : " \t\r\n\"'()&|,;=!<>~:";
      add(Kind::kText, std::max<size_t>(1, std::min(text.find_first_of(ends), text.size())));
    }
  }
  return tokens;
}

// Words between a column and a value, each with its sign.
constexpr struct {
  std::string_view word;
  std::string_view sign;
} kSignWords[] = {{"in", "="},
                  {"notin", "!="},
                  {"is", "="},
                  {"equals", "="},
                  {"like", "like"},
                  {"ilike", "like"},
                  {"contains", "contains"},
                  {"startswith", "begins"},
                  {"endswith", "ends"}};

bool IsWord(const Token& token, std::string_view word) {
  return token.kind == Kind::kText && !token.is_quoted && absl::AsciiStrToLower(token.text) == word;
}

// Returns the value as it is written in a filter. Empty if it can't be written in a command within single quotes.
std::string WrittenValue(const std::string& value) {
  if (value.find('\'') != std::string::npos || std::any_of(value.begin(), value.end(), absl::ascii_iscntrl)) {
    return "";
  }
  const bool needs_quotes = value.find_first_of(" ()\"\\,;&|") != std::string::npos || value.starts_with('~');
  return !needs_quotes ? value : absl::StrCat("\"", absl::StrReplaceAll(value, {{"\\", "\\\\"}, {"\"", "\\\""}}), "\"");
}

// Converts the tokens of a filter by recursive descent. Its functions return nothing if the filter can't be converted.
class Converter {
 public:
  explicit Converter(std::vector<Token> tokens) : tokens_(std::move(tokens)) {}

  FilterMeant Convert() {
    const auto all = Either(0);
    meant_.filter = all.has_value() && Peek().kind == Kind::kEnd ? all->text : "";
    return meant_;
  }

 private:
  // A part of the new filter, and whether AND and NOT need parentheses around it.
  struct Part {
    std::string text;
    bool is_choice = false;
    bool is_group = false;  // several terms, around which NOT needs parentheses
  };

  const Token& Peek(size_t ahead = 0) const {
    static const Token kEnd;
    return next_ + ahead < tokens_.size() ? tokens_[next_ + ahead] : kEnd;
  }
  bool TakeKind(Kind kind) {
    const bool is_next = Peek().kind == kind;
    next_ += is_next ? 1 : 0;
    return is_next;
  }
  bool TakeWord(std::string_view word) {
    const bool is_next = IsWord(Peek(), word);
    next_ += is_next ? 1 : 0;
    return is_next;
  }
  // Whether a column and a sign begin at the token `ahead`.
  bool BeginsTerm(size_t ahead) const {
    const Token& sign = Peek(ahead + 1);
    const bool is_word = std::any_of(std::begin(kSignWords), std::end(kSignWords),
                                     [&sign](const auto& row) { return IsWord(sign, row.word); });
    return Peek(ahead).kind == Kind::kText && (sign.kind == Kind::kSign || is_word);
  }

  static std::optional<Part> Join(const std::vector<Part>& parts, bool is_choice) {
    std::vector<std::string> texts;
    for (const Part& part : parts) {
      texts.push_back(part.is_choice && !is_choice && parts.size() > 1 ? absl::StrCat("(", part.text, ")") : part.text);
    }
    return parts.size() == 1 ? parts[0] : Part{absl::StrJoin(texts, is_choice ? " OR " : " AND "), is_choice, true};
  }

  std::optional<Part> Either(int depth) {
    std::vector<Part> parts;
    do {
      const auto part = Both(depth);
      if (!part.has_value()) {
        return std::nullopt;
      }
      parts.push_back(*part);
    } while (TakeWord("or") || TakeKind(Kind::kOr) || TakeKind(Kind::kPipe));
    return Join(parts, /*is_choice=*/true);
  }

  std::optional<Part> Both(int depth) {
    std::vector<Part> parts;
    do {
      const auto part = Factor(depth);
      if (!part.has_value()) {
        return std::nullopt;
      }
      parts.push_back(*part);
    } while (TakeWord("and") || TakeKind(Kind::kAnd) || TakeKind(Kind::kComma) || BeginsTerm(0));
    return Join(parts, /*is_choice=*/false);
  }

  std::optional<Part> Factor(int depth) {
    constexpr int kMaxNesting = 16;  // as the server's
    if (TakeWord("not") || TakeKind(Kind::kNot)) {
      const auto part = depth < kMaxNesting ? Factor(depth + 1) : std::nullopt;
      return !part.has_value()
                 ? part
                 : Part{absl::StrCat("NOT ", part->is_group ? absl::StrCat("(", part->text, ")") : part->text)};
    }
    if (!TakeKind(Kind::kOpen)) {
      return Term();
    }
    const auto part = depth < kMaxNesting ? Either(depth + 1) : std::nullopt;
    return part.has_value() && TakeKind(Kind::kClose) ? part : std::nullopt;
  }

  // Reads the sign of a term: "=", "!=", "~" for a regular expression, "!~" for its opposite, "like", "contains", or
  // "<" for an order. Empty if there is none.
  std::string Sign() {
    if (Peek().kind == Kind::kSign) {
      const std::string sign = tokens_[next_++].text;
      return sign == "==" || sign == ":"                                  ? "="
             : sign == "<>" || sign == "!"                                ? "!="
             : sign == "=~"                                               ? "~"
             : sign == "<" || sign == ">" || sign == "<=" || sign == ">=" ? "<"
                                                                          : sign;
    }
    const bool negates = IsWord(Peek(), "not") && BeginsTerm(0);
    next_ += negates ? 1 : 0;
    for (const auto& [word, sign] : kSignWords) {
      if (TakeWord(word)) {
        const bool is_not = TakeWord("not") || negates;
        return std::string(is_not ? "!" : "") + std::string(sign);
      }
    }
    return "";
  }

  // Reads the values of a term: one, or several with commas or | between them, in parentheses or without.
  std::vector<std::string> Values() {
    std::vector<std::string> values;
    const bool has_parentheses = TakeKind(Kind::kOpen);
    do {
      if (Peek().kind != Kind::kText) {
        return {};
      }
      values.push_back(tokens_[next_++].text);
    } while (TakeSeparator(has_parentheses));
    return has_parentheses && !TakeKind(Kind::kClose) ? std::vector<std::string>() : values;
  }

  bool TakeSeparator(bool has_parentheses) {
    const bool is_separator = Peek().kind == Kind::kComma || Peek().kind == Kind::kPipe;
    const bool is_next = is_separator && (has_parentheses || (Peek(1).kind == Kind::kText && !BeginsTerm(1)));
    next_ += is_next ? 1 : 0;
    return is_next;
  }

  std::optional<Part> Term() {
    if (Peek().kind != Kind::kText) {
      return std::nullopt;
    }
    const std::string word = tokens_[next_++].text;
    const std::string sign = Sign();
    if (sign.empty()) {
      return BareWord(word);
    }
    std::string column = ColumnMeant(word);
    if (const std::string field = UnfilteredField(word); sign == "<" || (column.empty() && !field.empty())) {
      meant_.unfiltered = field.empty() ? "-" : field;
      return std::nullopt;
    }
    const std::vector<std::string> values = Values();
    if (column.empty() || values.empty()) {
      return std::nullopt;
    }
    const bool is_id = absl::AsciiStrToLower(word) == "job" && values[0].starts_with("j-");
    return TermOf(is_id ? "id" : column, sign, values);
  }

  // Converts a word without a column: a state, a label of the form labels.KEY, or the name of a job.
  std::optional<Part> BareWord(const std::string& word) {
    const std::string column = absl::StrContains(word, '.') || absl::StrContains(word, '[') ? ColumnMeant(word) : "";
    if (column.starts_with("labels.")) {
      return Part{column + "=*"};
    }
    const bool is_name = std::all_of(word.begin(), word.end(), [](char c) {
      return absl::ascii_islower(c) || absl::ascii_isdigit(c) || c == '-' || c == '*' || c == '?';
    });
    const std::string states = word.find('*') == std::string::npos ? StatesMeant(word) : "";
    const bool is_state = !states.empty() && absl::EqualsIgnoreCase(states, word);
    const std::string as_column = ColumnMeant(word);
    const bool is_column = !as_column.empty() && as_column.find('.') == std::string::npos;
    if ((tokens_.size() > 1 || is_column) && !is_state) {
      return std::nullopt;
    }
    return !states.empty() ? TermOf("state", "=", {word})
           : is_name && word.find_first_not_of('*') != std::string::npos
               ? TermOf(word.starts_with("j-") ? "id" : "name", "=", {word})
               : std::nullopt;
  }

  // Returns the values that `value` stands for in this column; empty if it can't be converted.
  std::vector<std::string> ValuesMeant(const std::string& column, const std::string& sign, const std::string& value) {
    const std::string kind = sign.substr(sign.starts_with('!') ? 1 : 0);
    const std::string glob = kind == "~"          ? GlobOfRegex(value)
                             : kind == "like"     ? GlobOfLike(value)
                             : kind == "contains" ? absl::StrCat("*", value, "*")
                             : kind == "begins"   ? absl::StrCat(value, "*")
                             : kind == "ends"     ? absl::StrCat("*", value)
                                                  : value;
    const bool has_glob = glob.find_first_of("*?[") != std::string::npos;
    if (glob.empty()) {
      return {};
    }
    if (column == "state") {
      return absl::StrSplit(StatesMeant(glob), ',', absl::SkipEmpty());
    }
    constexpr size_t kIdBytes = 18;
    if (column == "id" && !has_glob && glob.size() < kIdBytes) {
      meant_.widens = true;
      return {glob + "*"};
    }
    if (column == "owner" && (glob == "me" || glob == "@me" || glob == "self" || glob.starts_with('$'))) {
      meant_.widens = true;
      return {"NAME"};
    }
    if (column == "owner" && !has_glob && glob.find(':') == std::string::npos) {
      meant_.widens = true;
      return {"*:" + glob};
    }
    return {glob};
  }

  std::optional<Part> TermOf(const std::string& column, const std::string& sign,
                             const std::vector<std::string>& values) {
    const bool excludes = sign.starts_with('!');
    std::vector<Part> parts;
    for (const std::string& value : values) {
      const std::vector<std::string> meant = ValuesMeant(column, sign, value);
      for (const std::string& one : meant) {
        parts.push_back({absl::StrCat(column, excludes ? "!=" : "=", WrittenValue(one))});
      }
      if (meant.empty() || parts.back().text.ends_with('=')) {
        return std::nullopt;
      }
    }
    return Join(parts, /*is_choice=*/!excludes);
  }

  const std::vector<Token> tokens_;
  size_t next_ = 0;
  FilterMeant meant_;
};

// Returns the filter as the value of an option in a command.
std::string AsArgument(const std::string& filter) {
  const bool is_plain = std::all_of(filter.begin(), filter.end(), [](char c) {
    return absl::ascii_isalnum(c) || c == '=' || c == '.' || c == '_' || c == '-' || c == '/' || c == ':';
  });
  return is_plain ? filter : absl::StrCat("'", filter, "'");
}

}  // namespace

FilterMeant ConvertFilter(std::string_view text) { return Converter(Split(text)).Convert(); }

std::string AdviceOnFilter(std::string_view text, bool is_valid) {
  const FilterMeant meant = ConvertFilter(text);
  if (meant.unfiltered == "age") {
    return "filters have no times; the newest jobs come first, and ampctl job list -o json has the times of each job";
  }
  if (!meant.unfiltered.empty()) {
    return absl::StrCat(
        "--filter knows only the columns that ampctl job list --help names, and only = and !=",
        meant.unfiltered == "-" ? "" : "; to sort by this field: ampctl job list --sort ",
        meant.unfiltered == "-" ? "" : meant.unfiltered,
        "; to select by any field: ampctl job list -o json | jq '.[] | select(",
        meant.unfiltered == "loss" ? "(.attempts[-1].outcome.finalMetrics.trainLoss // infinite) < 0.5" : "CONDITION",
        ")'");
  }
  if (meant.filter.empty() || meant.filter == text || (is_valid && !meant.widens)) {
    return "";
  }
  return absl::StrCat("did you mean: --filter ", AsArgument(meant.filter),
                      absl::StrContains(meant.filter, "owner=NAME") || absl::StrContains(meant.filter, "owner!=NAME")
                          ? kAboutOwner
                          : "");
}

}  // namespace ampd::client
