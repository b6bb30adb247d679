#include <string>
#include <vector>

#include "client/commands/policy/policy.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"
#include "precision/preset.h"

namespace ampd::client {
namespace {

// Lists the presets with one line about each, without a server.
int ListPolicies(Session* session) {
  std::vector<std::vector<std::string>> rows;
  std::vector<PlainFields> fields;
  const auto add = [&](std::string_view name, std::string_view summary) {
    rows.push_back({std::string(name), std::string(summary)});
    fields.push_back({{"preset", std::string(name)}, {"summary", std::string(summary)}});
  };
  for (const precision::Preset& preset : precision::AllPresets()) {
    add(preset.name, preset.summary);
  }
  add(precision::kAuto, "the first of bf16, fp16 and fp32 that the device computes natively");
  if (session->names_only()) {
    for (const auto& row : rows) {
      WriteFormatted("%s\n", row[0].c_str());
    }
  } else if (session->options().output == OutputFormat::kCsv) {
    PrintCsv(*session, {"preset", "summary"}, rows);
  } else if (!PrintStructured(*session, fields)) {
    PrintTable(*session, {"PRESET", "WHAT IT DOES"}, rows);
  }
  return kExitOk;
}

}  // namespace

Command ListPoliciesCommand() {
  return {.name = "list",
          .alias = "ls",
          .help = "List the presets",
          .formats = ListFormatsBut({OutputFormat::kWide}),
          .run = ListPolicies};
}

}  // namespace ampd::client
