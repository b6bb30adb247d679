#pragma once

#include <string>
#include <string_view>

// Words of other programs in a filter of `ampctl job list`.
namespace ampd::client {

// Returns the column of the filter that another program calls `word`: "state" for "status.phase", "labels.team" for
// "metadata.labels.team" or "team". Empty if the word can be no column.
std::string ColumnMeant(std::string_view word);

// Returns the field of `job list --sort` for a word that names a field without a column in filters: "age" for
// "created". "-" for such a field without an order, and "" for other words.
std::string UnfilteredField(std::string_view word);

// Returns the states, with commas between them, that ampctl or another program calls `word`: "succeeded" for
// "Completed". Empty if the word is no state.
std::string StatesNamed(std::string_view word);

// As StatesNamed, but also returns the most similar state for a misspelled one, and a pattern with * as it is.
std::string StatesMeant(std::string_view word);

// Returns the glob for a regular expression that is searched for in a text: "tin*" for "^tin.*". Empty if no glob means
// the same.
std::string GlobOfRegex(std::string_view regex);

// Returns the glob for a pattern of SQL's LIKE: "a*" for "a%".
std::string GlobOfLike(std::string_view pattern);

}  // namespace ampd::client
