#include "client/cli/foreign_values.h"

#include <algorithm>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"

namespace ampd::client {
namespace {

// Fields of other programs by which lists are sorted, and the fields of ampctl.
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
      const bool is_age = std::string_view(own) == "age";  // Its order is the reverse of that of times.
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
  if (kind == kInput) {
    return absl::StrContains(value.substr(0, value.find('=')), ".") ? "--set " + value : "--" + value;
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
