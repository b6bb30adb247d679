#include "client/cli/answers/foreign_values.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/cli/answers/foreign_syntax.h"
#include "client/cli/answers/foreign_words.h"
#include "client/commands/filter_words.h"

namespace ampd::client {
namespace {

// Fields by which other programs sort lists, each with the field of ampctl that means the same.
constexpr struct {
  const char* foreign;
  const char* own;
} kForeignOrders[] = {{"name", "name"},        {"j", "name"},   {"creationtimestamp", "age"},
                      {"starttime", "age"},    {"v", "age"},    {"s", "age"},
                      {"phase", "state"},      {"t", "state"},  {"i", "id"},
                      {"nodename", "worker"},  {"n", "worker"}, {"p", "priority"},
                      {"priority", "priority"}};

std::string OfOrder(const std::string& value) {
  const bool is_descending = value.starts_with('-');
  const std::string field = absl::AsciiStrToLower(value.substr(value.find_last_of(".-+") + 1));
  for (const auto& [foreign, own] : kForeignOrders) {
    if (field == foreign) {
      const bool is_age = std::string_view(own) == "age";  // A later time is a lower age, which reverses the order.
      return absl::StrCat("--sort ", own, is_descending != is_age ? ",desc" : "");
    }
  }
  return "";
}

std::string OfSelector(const std::string& value) {
  std::vector<std::string> words;
  for (const std::string& term : std::vector<std::string>(absl::StrSplit(value, ','))) {
    const size_t equals = term.find('=');
    const std::string key = term.substr(0, equals);
    const std::string meant = equals == std::string::npos ? "" : term.substr(term.find_last_of('=') + 1);
    if (key == "involvedObject.name" || key == "regarding.name") {
      words.push_back(meant);  // The events are those of this job.
      continue;
    }
    const char* const option = key == "status.phase"    ? "--state"
                               : key == "spec.nodeName" ? "--worker"
                               : key == "metadata.name" ? "--name"
                                                        : nullptr;
    if (option == nullptr || meant.empty()) {
      return "";
    }
    words.push_back(absl::StrCat(option, "=", meant));
  }
  return absl::StrJoin(words, " ");
}

// Returns the option --filter with the terms, joined by `word`. Empty if there are no terms.
std::string FilterOf(const std::vector<std::string>& terms, const char* word) {
  const std::string filter = absl::StrJoin(terms, word);
  return filter.empty() ? ""
                        : absl::StrCat("--filter ", NeedsNoQuotes(filter) ? filter : absl::StrCat("'", filter, "'"));
}

// Returns the term for the jobs whose label `key` has this value, or has not. `value` "*" stands for any value. Empty
// if the key or the value would need quotes.
std::string TermForLabel(const std::string& key, bool negates, const std::string& value) {
  const bool is_good = !key.empty() && NeedsNoQuotes(key) && (value == "*" || NeedsNoQuotes(value));
  return is_good ? absl::StrCat("labels.", key, negates ? "!=" : "=", value) : "";
}

}  // namespace

std::string ForeignValue(std::string_view kind, const std::string& value) {
  if (kind == kListFormat) {
    const std::string column = absl::AsciiStrToLower(value);
    return column == "%i" || column == "%a" || column == "jobid" ? "-q" : "";
  }
  if (kind == kListOrder) {
    return OfOrder(value);
  }
  if (kind == kFieldSelector) {
    return OfSelector(value);
  }
  if (kind == kServerAddress) {
    return AsAddress(value);
  }
  if (kind == kServer) {
    return "--address " + AsAddress(value);
  }
  if (kind == kWorkflow) {
    return LooksLikeJobFile(value) ? "" : "--name " + value;
  }
  if (kind == kInput) {
    const std::string key = value.substr(0, value.find('='));
    const bool is_option =
        key == "name" || !RewrittenOption("job submit", "--" + key, value.substr(key.size() + 1)).empty();
    if (IsOneOf(key, "lr|learning_rate|learning-rate")) {
      return absl::StrCat("--set optimizer.OPTIMIZER.learning_rate", value.substr(key.size()));
    }
    return is_option ? "--" + value : "--set " + value;
  }
  const std::string state = kind == kStateToWaitFor ? StateToWaitFor(value) : "";
  return state.empty() ? "" : "--for " + state;
}

std::string StateToWaitFor(const std::string& value) {
  const std::string state = absl::AsciiStrToLower(value.substr(value.rfind('=') + 1));
  return state == "running" || state == "ready" || state == "started" ? "RUNNING"
         : state == "paused" || state == "suspended"                  ? "PAUSED"
                                                                      : "";
}

std::string FilterForStates(const std::string& words) {
  std::vector<std::string> terms;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words, ','))) {
    const std::vector<std::string> states = absl::StrSplit(StatesNamed(word), ',');
    for (const std::string& state : states) {
      if (state.empty()) {
        return "";
      }
      if (const std::string term = "state=" + state; std::find(terms.begin(), terms.end(), term) == terms.end()) {
        terms.push_back(term);
      }
    }
  }
  return terms.size() == 1 ? "--filter " + terms[0] : absl::StrCat("--filter '", absl::StrJoin(terms, " OR "), "'");
}

std::string FilterForOwners(const std::string& words) {
  std::vector<std::string> terms;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words, ','))) {
    if (!NeedsNoQuotes(word)) {
      return "";
    }
    if (word == "@me") {
      return "--filter owner=NAME";
    }
    terms.push_back(absl::StrCat("owner=", absl::StrContains(word, ":") ? "" : "*:", word));
  }
  return FilterOf(terms, " OR ");
}

std::string FilterForColumn(const std::string& column, const std::string& words) {
  std::vector<std::string> terms;
  for (const std::string& word : std::vector<std::string>(absl::StrSplit(words, ',', absl::SkipEmpty()))) {
    if (!NeedsNoQuotes(word)) {
      return "";
    }
    terms.push_back(absl::StrCat(column, "=", word));
  }
  return FilterOf(terms, " OR ");
}

std::string FilterForLabels(const std::string& selector) {
  const bool excludes = absl::StrContains(selector, " notin (");
  const std::string begin_of_list = excludes ? " notin (" : " in (";
  std::vector<std::string> terms;
  if (const size_t end_of_key = selector.find(begin_of_list);
      end_of_key != std::string::npos && selector.ends_with(")")) {
    const std::string key = selector.substr(0, end_of_key);
    const size_t begin = end_of_key + begin_of_list.size();
    const std::string values = selector.substr(begin, selector.size() - begin - 1);
    for (const absl::string_view value : absl::StrSplit(values, ',')) {
      terms.push_back(TermForLabel(key, excludes, std::string(absl::StripAsciiWhitespace(value))));
    }
    const bool are_good = std::find(terms.begin(), terms.end(), "") == terms.end();
    return are_good ? FilterOf(terms, excludes ? " AND " : " OR ") : "";
  }
  for (const std::string& term : std::vector<std::string>(absl::StrSplit(selector, ','))) {
    const size_t end_of_key = term.find_first_of("!=", 1);
    const bool has_value = end_of_key != std::string::npos;
    const bool negates = has_value ? term[end_of_key] == '!' : term.starts_with('!');
    const std::string key = has_value ? term.substr(0, end_of_key) : term.substr(negates ? 1 : 0);
    // A key without a value selects the jobs that have the label, whatever its value.
    terms.push_back(TermForLabel(key, negates, has_value ? term.substr(term.find_last_of('=') + 1) : "*"));
    if (terms.back().empty()) {
      return "";
    }
  }
  return FilterOf(terms, " AND ");
}

std::string FilterForWord(const std::string& word) {
  constexpr std::string_view kColumns[] = {"state", "name", "queue", "id", "owner", "worker", "tenant"};
  const std::string column = word.substr(0, word.find_first_of("!="));
  const bool has_column = column.starts_with("labels.") ||
                          std::find(std::begin(kColumns), std::end(kColumns), column) != std::end(kColumns);
  if (has_column && column.size() < word.size() && NeedsNoQuotes(absl::StrReplaceAll(word, {{"!", ""}, {"*", ""}}))) {
    return FilterOf({word}, "");
  }
  return absl::StrContains(word, ",") ? "" : FilterForStates(word);
}

bool LooksLikeAddress(const std::string& word) {
  return word != "." && word != ".." && !word.starts_with('-') && word.find_first_of(".:") != std::string::npos;
}

std::string AsAddress(const std::string& word) {
  if (word.starts_with("unix:")) {
    return word;
  }
  const size_t scheme = word.find("://");
  const std::string behind = scheme == std::string::npos ? word : word.substr(scheme + 3);
  const std::string host = behind.substr(0, behind.find('/'));
  const size_t end_of_ipv6 = host.starts_with('[') ? host.find(']') : std::string::npos;
  const bool has_port = host.find(':', end_of_ipv6 == std::string::npos ? 0 : end_of_ipv6) != std::string::npos;
  return has_port ? host : host + ":PORT";
}

bool IsMoreThanOne(const std::string& text) {
  int64_t number = 0;
  return absl::SimpleAtoi(text.substr(text.rfind(':') + 1), &number) && number > 1;
}

}  // namespace ampd::client
