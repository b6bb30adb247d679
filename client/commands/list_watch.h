#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "client/commands/command.h"
#include "client/terminal/list_printer.h"
#include "client/terminal/session.h"

// The option --watch of the commands that list things.
namespace ampd::client {

struct ListWatchOptions {
  bool watch = false;
  std::optional<absl::Duration> interval;  // time between two readings of the list; unset: 2 s
};

// The options --watch and --interval.
std::vector<Argument> ListWatchArguments(ListWatchOptions* options);

// Returns INVALID_ARGUMENT if --interval is given without --watch.
absl::Status CheckListWatch(const ListWatchOptions& options);

// A list as it is at one moment.
struct ListReading {
  struct Entry {
    std::string id;
    std::string state;  // If this text differs from that of the previous reading, the item is printed again.
    ItemText text;
  };
  std::vector<Entry> entries;
  int64_t num_all = 0;  // Number of items, of which `entries` may hold only some; 0: not known.
};

// Reads the list: at most `limit` items (0: all).
using ReadList = std::function<absl::StatusOr<ListReading>(JobClient*, int limit)>;

// Reads and shows a list again and again until Ctrl-C. On a terminal it redraws a table of the items that fit on the
// screen. Otherwise it prints the whole list once, and then only items that are new or have changed. The formats table,
// wide, jsonl and csv can be watched. Ends if the server is unreachable for a minute, or if nobody reads the output any
// more. Returns the exit code.
int WatchList(Session* session, std::optional<absl::Duration> interval, const Cells& headings, const ReadList& read);

}  // namespace ampd::client
