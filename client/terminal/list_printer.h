#pragma once

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/terminal/session.h"

namespace ampd::client {

using Cells = std::vector<std::string>;

// One item of a list in the format of -o.
struct ItemText {
  std::vector<Cells> rows;  // the item's rows in the formats table, wide and csv; otherwise empty
  std::string text;         // in other formats: the item's name, its JSON on one line, or its YAML document
};

// Prints a list in the format of -o. It prints part by part, so that a list of any length takes little memory. The
// format is a table, CSV lines, names, a JSON array, or one JSON line or YAML document per item. The columns of a table
// are as wide as the widest cell so far, so a later part may widen them. Single-threaded.
class ListPrinter {
 public:
  // `headings` are those of the table or, with -o csv, of the CSV file.
  ListPrinter(const Session* session, Cells headings) : session_(session), headings_(std::move(headings)) {}

  void Add(const std::vector<ItemText>& part);
  // Ends the list. Call it once, but not after an error: a JSON array then stays without its closing bracket, so that
  // no program takes it for the whole list.
  void End();

 private:
  void AddRows(const std::vector<ItemText>& part);
  void AddCsv(const std::vector<ItemText>& part);
  bool TakeHeadings();  // Returns whether to print the headings now; true at most once.

  const Session* const session_;
  const Cells headings_;
  std::vector<int> widths_;
  bool has_begun_ = false;
};

// Prints a part of a list with -o json: an object with the items under `name`, the size of the whole list (0: not
// known), and the token of the next page, if there is one.
void PrintPartOfList(const std::string& name, const std::vector<ItemText>& items, int64_t total_size,
                     const std::string& next_page_token);

}  // namespace ampd::client
