#include "client/commands/sorting.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

SortOrder ParseSortOrder(const std::string& text) {
  SortOrder order;
  order.is_descending = text.ends_with(",desc");
  order.field = std::string(absl::StripSuffix(absl::StripSuffix(text, ",desc"), ",asc"));
  return order;
}

namespace {

// Returns the end of an error message about an unknown order, which suggests a valid one: "; did you mean 'loss,desc'?"
// for "Loss DESC". Suggests nothing for an order such as "-loss", for which client/cli/usage.cc has its own message.
std::string MeantOrder(const std::string& text, const std::vector<std::string>& fields) {
  const std::string lower = absl::AsciiStrToLower(text);
  const size_t end = lower.find_first_of(", ");
  const std::string nearest = text.starts_with('-') ? "" : Nearest(lower.substr(0, end), fields);
  const bool is_descending = end != std::string::npos && absl::StrContains(lower.substr(end), "desc");
  return nearest.empty() ? "" : absl::StrCat("; did you mean '", nearest, is_descending ? ",desc'?" : "'?");
}

}  // namespace

Argument SortOption(std::string* order, std::vector<std::string> fields) {
  const std::string names = absl::StrJoin(fields, ", ");
  const bool has_age = std::find(fields.begin(), fields.end(), "age") != fields.end();
  return {.name = "--sort",
          .value = order,
          .text = "FIELD[,desc]",
          .help = absl::StrCat("Sort by this field in ascending order; FIELD,desc sorts in descending order",
                               has_age ? ". For age, ascending means the newest first" : "", "\nFields: ", names),
          .check =
              [fields, names](const std::string& text) {
                const bool is_known =
                    std::find(fields.begin(), fields.end(), ParseSortOrder(text).field) != fields.end();
                return is_known ? std::string()
                                : absl::StrCat("'", text, "' is no field to sort by; fields are ", names,
                                               "; descending: FIELD,desc", MeantOrder(text, fields));
              },
          .suggest = SuggestWords(fields)};
}

}  // namespace ampd::client
