#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

// The formats of -o. Every command lists the formats that it supports; any other is a usage error, never ignored.
namespace ampd::client {

enum class OutputFormat { kTable, kWide, kJson, kJsonLines, kYaml, kName, kCsv, kMarkdown, kHtml };

// The formats that a command supports, in the order of the enumeration. Every command has kTable, its plain text.
using FormatSet = std::vector<OutputFormat>;

// Returns all formats except kCsv (only for lists) and kMarkdown and kHtml (only for reports).
FormatSet AllFormats();
FormatSet AllFormatsBut(const FormatSet& left_out);
// Returns the formats of a command that prints a list: AllFormats() and csv.
FormatSet ListFormats();
FormatSet ListFormatsBut(const FormatSet& left_out);

// Returns every format that -o accepts.
FormatSet KnownFormats();

std::string FormatName(OutputFormat format);
std::optional<OutputFormat> FormatNamed(std::string_view name);

// Returns the names of the formats: "table, json, yaml".
std::string FormatNames(const FormatSet& formats);

bool HasFormat(const FormatSet& formats, OutputFormat format);

}  // namespace ampd::client
