#include "client/terminal/list_printer.h"

#include <google/protobuf/struct.pb.h>

#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/render/csv.h"
#include "client/render/table.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {

bool ListPrinter::TakeHeadings() { return !std::exchange(has_begun_, true) && !session_->options().no_headers; }

void ListPrinter::AddRows(const std::vector<ItemText>& part) {
  std::vector<Cells> rows;
  for (const ItemText& item : part) {
    rows.insert(rows.end(), item.rows.begin(), item.rows.end());
  }
  if (!rows.empty()) {
    WriteColoured(RenderRows(TakeHeadings() ? headings_ : Cells(), rows, &widths_, OutputWidth()));
  }
}

void ListPrinter::AddCsv(const std::vector<ItemText>& part) {
  std::string text = TakeHeadings() ? CsvLine(headings_) : "";
  for (const ItemText& item : part) {
    for (const Cells& cells : item.rows) {
      text += CsvLine(cells);
    }
  }
  WriteText(text);
}

void ListPrinter::Add(const std::vector<ItemText>& part) {
  switch (session_->names_only() ? OutputFormat::kName : session_->options().output) {
    case OutputFormat::kTable:
    case OutputFormat::kWide:
      AddRows(part);
      break;
    case OutputFormat::kCsv:
      AddCsv(part);
      break;
    case OutputFormat::kJson:
      for (const ItemText& item : part) {
        WriteText((std::exchange(has_begun_, true) ? ",\n" : "[") + item.text);
      }
      break;
    case OutputFormat::kYaml:
      for (const ItemText& item : part) {
        WriteText("---\n" + item.text);
      }
      break;
    case OutputFormat::kJsonLines:
    case OutputFormat::kName:
      for (const ItemText& item : part) {
        WriteText(item.text + "\n");
      }
      break;
    case OutputFormat::kMarkdown:
    case OutputFormat::kHtml:
      break;  // Lists do not have these formats.
  }
}

void ListPrinter::End() {
  const OutputFormat format = session_->options().output;
  if (format == OutputFormat::kJson && !session_->names_only()) {
    WriteText(has_begun_ ? "]\n" : "[]\n");
  } else if (format == OutputFormat::kCsv && !session_->names_only()) {
    AddCsv({});  // Print the headings of an empty list too.
  }
}

void PrintPartOfList(const std::string& name, const std::vector<ItemText>& items, int64_t total_size,
                     const std::string& next_page_token) {
  std::string text = absl::StrCat(
      "{\n \"", name, "\": [",
      absl::StrJoin(items, ",\n", [](std::string* out, const ItemText& item) { out->append(item.text); }), "]");
  if (total_size > 0) {
    absl::StrAppend(&text, ",\n \"totalSize\": \"", total_size, "\"");
  }
  if (!next_page_token.empty()) {
    google::protobuf::Value token;
    token.set_string_value(next_page_token);
    absl::StrAppend(&text, ",\n \"nextPageToken\": ", ToJson(token, /*indented=*/false));
  }
  WriteText(text + "\n}\n");
}

}  // namespace ampd::client
