#include "client/commands/sorting.h"

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

SortOrder ParseSortOrder(const std::string& text) {
  SortOrder order;
  order.is_descending = text.ends_with(",desc");
  order.field = std::string(absl::StripSuffix(absl::StripSuffix(text, ",desc"), ",asc"));
  return order;
}

Argument SortOption(std::string* order, std::vector<std::string> fields) {
  const std::string names = absl::StrJoin(fields, ", ");
  return {.name = "--sort",
          .value = order,
          .text = "FIELD[,desc]",
          .help = absl::StrCat(
              "Sort by this field; with ,desc behind it in descending order",
              std::find(fields.begin(), fields.end(), "age") == fields.end() ? "" : ". By age, the newest comes first",
              "\nFields: ", names),
          .check =
              [fields, names](const std::string& text) {
                const bool is_known =
                    std::find(fields.begin(), fields.end(), ParseSortOrder(text).field) != fields.end();
                return is_known ? std::string()
                                : absl::StrCat("'", text, "' is no field to sort by; fields are ", names,
                                               "; descending: FIELD,desc");
              },
          .suggest = SuggestWords(fields)};
}

}  // namespace ampd::client
