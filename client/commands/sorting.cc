#include "client/commands/sorting.h"

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/nearest.h"
#include "client/commands/filter_words.h"
#include "client/commands/suggestions.h"

namespace ampd::client {

SortOrder ParseSortOrder(const std::string& text) {
  SortOrder order;
  order.is_descending = text.ends_with(",desc");
  order.field = std::string(absl::StripSuffix(absl::StripSuffix(text, ",desc"), ",asc"));
  return order;
}

namespace {

// Returns the field that `word`, in lower case, names in another program or with a typing error; empty if there is
// none.
std::string FieldMeant(const std::string& word, const std::vector<std::string>& fields) {
  for (const std::string& own : {word, UnfilteredField(word), ColumnMeant(word)}) {
    if (std::find(fields.begin(), fields.end(), own) != fields.end()) {
      return own;
    }
  }
  return Nearest(word, fields);
}

// Returns the end of an error message about an unknown order, which suggests a valid one: "; did you mean 'loss,desc'?"
// for "Loss DESC" or "-loss".
std::string MeantOrder(const std::string& text, const std::vector<std::string>& fields) {
  const std::string lower = absl::AsciiStrToLower(text);
  const size_t begin = lower.find_first_not_of("-+.");
  const std::string rest = begin == std::string::npos ? "" : lower.substr(begin);
  const size_t end = std::min(rest.find_first_of(", :"), rest.size());
  const std::string word = rest.substr(0, end);
  const std::string direction(absl::StripAsciiWhitespace(rest.substr(std::min(end + 1, rest.size()))));
  const std::string field = FieldMeant(word, fields);
  const bool is_direction = direction.empty() || absl::StrContains("descending reverse", direction) ||
                            absl::StrContains("ascending", direction);
  if (field.empty()) {
    return "";
  }
  if (!is_direction) {
    return absl::StrCat("; a list is sorted by one field, such as '", field, "'");
  }
  // A later time is a lower age, so the order is the opposite.
  const bool is_time = field == "age" && word != "age" && UnfilteredField(word) == "age";
  const bool descends =
      lower.starts_with('-') || (!direction.empty() && absl::StrContains("descending reverse", direction));
  return absl::StrCat("; did you mean '", field, descends != is_time ? ",desc'?" : "'?");
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
