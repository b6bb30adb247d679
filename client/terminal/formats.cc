#include "client/terminal/formats.h"

#include <algorithm>

#include "absl/strings/str_join.h"

namespace ampd::client {
namespace {

constexpr const char* kNames[] = {"table", "wide", "json", "jsonl", "yaml", "name", "csv", "markdown", "html"};

FormatSet Without(FormatSet formats, const FormatSet& left_out) {
  std::erase_if(formats, [&left_out](OutputFormat format) { return HasFormat(left_out, format); });
  return formats;
}

}  // namespace

FormatSet AllFormats() {
  return {OutputFormat::kTable,     OutputFormat::kWide, OutputFormat::kJson,
          OutputFormat::kJsonLines, OutputFormat::kYaml, OutputFormat::kName};
}

FormatSet AllFormatsBut(const FormatSet& left_out) { return Without(AllFormats(), left_out); }

FormatSet ListFormats() {
  FormatSet formats = AllFormats();
  formats.push_back(OutputFormat::kCsv);
  return formats;
}

FormatSet ListFormatsBut(const FormatSet& left_out) { return Without(ListFormats(), left_out); }

FormatSet KnownFormats() {
  FormatSet formats = ListFormats();
  formats.insert(formats.end(), {OutputFormat::kMarkdown, OutputFormat::kHtml});
  return formats;
}

std::string FormatName(OutputFormat format) { return kNames[static_cast<size_t>(format)]; }

std::optional<OutputFormat> FormatNamed(std::string_view name) {
  for (const OutputFormat format : KnownFormats()) {
    if (FormatName(format) == name) {
      return format;
    }
  }
  return std::nullopt;
}

std::string FormatNames(const FormatSet& formats) {
  return absl::StrJoin(formats, ", ", [](std::string* out, OutputFormat format) { out->append(FormatName(format)); });
}

bool HasFormat(const FormatSet& formats, OutputFormat format) {
  return std::find(formats.begin(), formats.end(), format) != formats.end();
}

}  // namespace ampd::client
