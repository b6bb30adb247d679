#include "server/coordinator/job_filter.h"

#include <algorithm>
#include <utility>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/status_macros.h"
#include "base/text.h"
#include "server/coordinator/answer_limits.h"

namespace ampd::server {
namespace {

using v1::Job;

constexpr size_t kMaxFilterBytes = 4096;
constexpr int kMaxNesting = 16;
constexpr std::string_view kLabels = "labels.";
constexpr std::string_view kColumns[] = {"state", "name", "queue", "id", "owner", "worker", "tenant"};

absl::Status Wrong(const std::string& description) { return InvalidFields({{"filter", description}}); }

// Returns a part of the filter, quoted for an error message.
std::string Quoted(std::string_view part) { return absl::StrCat("\"", Shortened(part, kMaxShownBytes), "\""); }

bool IsColumn(std::string_view column) {
  return std::find(std::begin(kColumns), std::end(kColumns), column) != std::end(kColumns) ||
         (column.starts_with(kLabels) && column.size() > kLabels.size());
}

std::vector<std::string> StateNames() {
  std::vector<std::string> names;
  for (int state = Job::STATE_UNSPECIFIED + 1; state <= Job::State_MAX; ++state) {
    names.push_back(Job::State_Name(state));
  }
  return names;
}

// Returns the end of an unquoted value that looks like a sign between terms with a term behind it: ",name=b" in
// "a,name=b". Empty if there is none.
std::string_view TermIn(std::string_view value) {
  constexpr std::string_view kBetween = ",;&|";
  for (size_t begin = value.find_first_of(kBetween); begin != std::string_view::npos;
       begin = value.find_first_of(kBetween, begin + 1)) {
    const size_t column = value.find_first_not_of(kBetween, begin);
    const size_t end = column == std::string_view::npos ? column : value.find_first_of("=!", column);
    if (end != std::string_view::npos && IsColumn(value.substr(column, end - column))) {
      return value.substr(begin);
    }
  }
  return "";
}

// Returns the states that match the glob, one bit each.
absl::StatusOr<uint32_t> StatesLike(const std::string& pattern) {
  uint32_t states = 0;
  for (int state = Job::STATE_UNSPECIFIED + 1; state <= Job::State_MAX; ++state) {
    states |= GlobMatches(absl::AsciiStrToUpper(pattern), Job::State_Name(state)) ? uint32_t{1} << state : 0;
  }
  if (states == 0) {
    return Wrong(
        absl::StrCat("there is no state ", Quoted(pattern), "; states are ", absl::StrJoin(StateNames(), ", ")));
  }
  return states;
}

}  // namespace

// Parses one filter, from left to right. Single-threaded.
class FilterParser {
 public:
  explicit FilterParser(std::string_view text) : rest_(text) {}

  absl::StatusOr<JobFilter> Parse() {
    JobFilter filter;
    AMPD_ASSIGN_OR_RETURN(filter.root_, ParseEither(0));
    SkipBlanks();
    if (const std::string operation = ForeignOperation(); !operation.empty()) {
      return Wrong(absl::StrCat("has ", Next(), "; write ", operation));
    }
    if (!rest_.empty()) {
      return Wrong(rest_.front() == ')' ? "has \")\" without a \"(\" before it"
                                        : absl::StrCat("has ", Next(),
                                                       " where AND, OR or the end is expected; a value with spaces "
                                                       "needs quotes: name=\"two words\""));
    }
    return filter;
  }

 private:
  using Node = JobFilter::Node;

  void SkipBlanks() { rest_.remove_prefix(std::min(rest_.find_first_not_of(" \t\r\n"), rest_.size())); }
  // Returns the next word or parenthesis, for an error message.
  std::string Next() const { return Quoted(Word().empty() ? rest_.substr(0, 1) : Word()); }
  // Returns the text up to the next blank or parenthesis.
  std::string_view Word() const { return rest_.substr(0, rest_.find_first_of(" \t\r\n()")); }
  // If an operator of another language comes next, such as '&', returns the operator to use instead ("AND" or "OR");
  // otherwise returns an empty string.
  std::string ForeignOperation() const {
    return rest_.starts_with('&') || rest_.starts_with(',') || rest_.starts_with(';') ? "AND"
           : rest_.starts_with('|')                                                   ? "OR"
                                                                                      : "";
  }
  // If `keyword` comes next, in upper or lower case, skips it and returns true.
  bool Take(std::string_view keyword) {
    SkipBlanks();
    const std::string_view word = Word();
    const bool is_next = absl::EqualsIgnoreCase({word.data(), word.size()}, {keyword.data(), keyword.size()});
    rest_.remove_prefix(is_next ? keyword.size() : 0);
    return is_next;
  }

  absl::StatusOr<Node> ParseEither(int depth) {
    Node node{.kind = Node::Kind::kOr};
    do {
      AMPD_ASSIGN_OR_RETURN(node.children.emplace_back(), ParseBoth(depth));
    } while (Take("OR"));
    return node;
  }

  absl::StatusOr<Node> ParseBoth(int depth) {
    Node node{.kind = Node::Kind::kAnd};
    do {
      AMPD_ASSIGN_OR_RETURN(node.children.emplace_back(), ParseFactor(depth));
    } while (Take("AND"));
    return node;
  }

  absl::StatusOr<Node> ParseFactor(int depth) {
    bool is_negated = false;
    while (Take("NOT")) {
      is_negated = !is_negated;
    }
    SkipBlanks();
    if (!rest_.starts_with('(')) {
      AMPD_ASSIGN_OR_RETURN(Node term, ParseTerm());
      term.is_negated = term.is_negated != is_negated;
      return term;
    }
    if (depth == kMaxNesting) {
      return Wrong(absl::StrCat("has parentheses nested more than ", kMaxNesting, " levels deep"));
    }
    rest_.remove_prefix(1);
    AMPD_ASSIGN_OR_RETURN(Node node, ParseEither(depth + 1));
    SkipBlanks();
    if (!rest_.starts_with(')')) {
      return Wrong(rest_.empty() ? "has a \"(\" without a \")\" behind it"
                                 : absl::StrCat("has ", Next(), " where AND, OR or \")\" is expected"));
    }
    rest_.remove_prefix(1);
    node.is_negated = is_negated;
    return node;
  }

  absl::StatusOr<Node> ParseTerm() {
    const std::string_view word = Word();
    const size_t end = word.find_first_of("=!<>~");
    if (word.empty() || absl::EqualsIgnoreCase({word.data(), word.size()}, "AND") ||
        absl::EqualsIgnoreCase({word.data(), word.size()}, "OR")) {
      return Wrong("has no term where one is expected; a term is COLUMN=VALUE or COLUMN!=VALUE, such as state=RUNNING");
    }
    Node term{.kind = Node::Kind::kTerm};
    term.column = std::string(word.substr(0, end));
    const std::string_view operation = end == std::string_view::npos ? "" : word.substr(end);
    term.is_negated = operation.starts_with("!=");
    if (!term.is_negated && !operation.starts_with('=')) {
      const std::string shown = Quoted(word);
      rest_.remove_prefix(word.size());
      SkipBlanks();
      const bool has_blanks = rest_.starts_with('=') || rest_.starts_with("!=");
      return Wrong(absl::StrCat("has ", shown, "; a term is COLUMN=VALUE or COLUMN!=VALUE",
                                has_blanks ? ", without blanks around the sign" : ""));
    }
    if (!IsColumn(term.column)) {
      return Wrong(absl::StrCat("there is no column ", Quoted(term.column),
                                "; columns are state, name, queue, id, owner, worker, tenant and labels.KEY"));
    }
    rest_.remove_prefix(end + (term.is_negated || operation.starts_with("==") ? 2 : 1));
    AMPD_ASSIGN_OR_RETURN(term.pattern, ParseValue());
    if (term.column == "state") {
      AMPD_ASSIGN_OR_RETURN(term.states, StatesLike(term.pattern));
    }
    return term;
  }

  absl::StatusOr<std::string> ParseValue() {
    std::string value;
    if (!rest_.starts_with('"')) {
      value = std::string(Word());
      if (value.starts_with('\'')) {
        return Wrong(absl::StrCat("has the value ", Quoted(value), " in single quotes; use double quotes, or none"));
      }
      if (value.starts_with('~')) {
        return Wrong(absl::StrCat("has the value ", Quoted(value),
                                  "; there are no regular expressions, * stands for any characters, and a value that "
                                  "begins with ~ needs double quotes"));
      }
      if (const std::string_view term = TermIn(value); !term.empty()) {
        return Wrong(absl::StrCat("has ", Quoted(term), " in a value; write ", term.front() == '|' ? "OR" : "AND",
                                  " between terms, or double quotes around the value"));
      }
      rest_.remove_prefix(value.size());
      return value;
    }
    for (size_t i = 1; i < rest_.size(); ++i) {
      if (rest_[i] == '"') {
        rest_.remove_prefix(i + 1);
        return value;
      }
      const bool is_escape = rest_[i] == '\\' && i + 1 < rest_.size() && (rest_[i + 1] == '\\' || rest_[i + 1] == '"');
      i += is_escape ? 1 : 0;
      value += rest_[i];
    }
    return Wrong(absl::StrCat("has the value ", Quoted(rest_), " without a closing quote"));
  }

  std::string_view rest_;
};

absl::StatusOr<JobFilter> JobFilter::Parse(std::string_view text) {
  if (text.size() > kMaxFilterBytes) {
    return Wrong(absl::StrCat("is longer than ", kMaxFilterBytes, " bytes"));
  }
  return text.empty() ? JobFilter() : FilterParser(text).Parse();
}

bool JobFilter::Matches(const Job& job) const { return Holds(root_, job); }

bool JobFilter::Holds(const Node& node, const Job& job) {
  const auto holds = [&job](const Node& child) { return Holds(child, job); };
  switch (node.kind) {
    case Node::Kind::kAll:
      return true;
    case Node::Kind::kAnd:
      return std::all_of(node.children.begin(), node.children.end(), holds) != node.is_negated;
    case Node::Kind::kOr:
      return std::any_of(node.children.begin(), node.children.end(), holds) != node.is_negated;
    case Node::Kind::kTerm:
      return TermHolds(node, job) != node.is_negated;
  }
  return false;
}

bool JobFilter::TermHolds(const Node& term, const Job& job) {
  // Also compares the text literally, because a label may contain characters that are special in a glob.
  const auto is_like = [&term](const std::string& text) {
    return text == term.pattern || GlobMatches(term.pattern, text);
  };
  if (term.column == "state") {
    return (term.states >> job.state() & 1) == 1;
  }
  if (term.column == "name") {
    return is_like(job.spec().name());
  }
  if (term.column == "queue") {
    return is_like(job.spec().queue());
  }
  if (term.column == "id") {
    return is_like(job.id());
  }
  if (term.column == "tenant") {
    return is_like(job.tenant());
  }
  if (term.column == "owner") {
    return is_like(job.owner());
  }
  if (term.column == "worker") {
    return is_like(job.attempts().empty() ? "" : job.attempts().rbegin()->worker());
  }
  const auto label = job.spec().labels().find(term.column.substr(kLabels.size()));
  return label != job.spec().labels().end() && is_like(label->second);
}

}  // namespace ampd::server
