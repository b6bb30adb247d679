#pragma once

#include <string>
#include <string_view>

// Suggests a filter of `ampctl job list` in place of one that is written as in another program.
namespace ampd::client {

// The end of a message that suggests "owner=NAME". It says which command prints the user's own name.
inline constexpr char kAboutOwner[] =
    " (to see your NAME: ampctl auth whoami -q; on a server without access control, leave out owner=NAME)";

// What a filter in the notation of another program probably means.
struct FilterMeant {
  // The whole filter in the notation of the server, such as "state=running OR state=queued". Empty if the text can't be
  // converted without losing a part of it.
  std::string filter;
  // Whether `filter` may match jobs that the text does not match, although the server accepts the text: "owner=*:ann"
  // for "owner=ann".
  bool widens = false;
  // Set if the text compares a field that filters do not have, or compares with < or >: the field of `job list --sort`
  // that the text names, such as "priority", or "-" if lists can't be sorted by it.
  std::string unfiltered;
};

// Converts a filter whose columns, signs, values or joining words are those of other programs, for example kubectl's
// "status.phase in (Running, Pending)", SQL's "name LIKE 'a%'" or "state=running,queued".
FilterMeant ConvertFilter(std::string_view text);

// Returns the line of advice on a filter that the server refused; empty if there is none. If `is_valid`, the server
// accepted the filter and found no job; the advice is then only about parts that hardly match any job.
std::string AdviceOnFilter(std::string_view text, bool is_valid);

}  // namespace ampd::client
