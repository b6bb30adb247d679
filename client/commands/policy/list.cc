#include <cstdio>
#include <string>
#include <vector>

#include "client/commands/policy/policy.h"
#include "client/terminal/output.h"
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
  add(precision::kAuto, "bf16, fp16 or fp32: the first that the device computes natively");
  if (session->names_only()) {
    for (const auto& row : rows) {
      std::printf("%s\n", row[0].c_str());
    }
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
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .run = ListPolicies};
}

}  // namespace ampd::client
