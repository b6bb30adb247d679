#include "client/commands/server/health.h"

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/health_checks.h"
#include "base/status_macros.h"
#include "client/commands/server/versions.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// The health that the server reports: one result for each of kHealthChecks.
struct ServerHealth {
  bool is_serving = false;
  std::vector<std::pair<const HealthCheck*, bool>> checks;  // each check that the server knows, and whether it passes
  std::vector<std::string> version_warnings;                // see VersionWarnings
};

absl::StatusOr<ServerHealth> FetchHealth(JobClient* client) {
  ServerHealth health;
  AMPD_ASSIGN_OR_RETURN(health.is_serving, client->IsServing(""));
  for (const HealthCheck& check : kHealthChecks) {
    const absl::StatusOr<bool> is_good = client->IsServing(check.name);
    if (is_good.ok()) {
      health.checks.emplace_back(&check, *is_good);
    } else if (!absl::IsNotFound(is_good.status())) {
      return is_good.status();
    }
  }
  // Do not list the workers: programs call this command every few seconds, and some have no role that may list workers.
  const auto info = client->GetServerInfo();
  health.version_warnings = VersionWarnings(info.ok() ? info->version() : "", {});
  return health;
}

PlainFields ToFields(const std::string& address, const ServerHealth& health) {
  PlainFields checks;
  for (const auto& [check, is_good] : health.checks) {
    checks.push_back({check->name, is_good});
  }
  return {
      {"address", address}, {"status", health.is_serving ? "SERVING" : "NOT_SERVING"}, {"checks", std::move(checks)}};
}

int Health(Session* session) {
  const auto client = session->Client();
  const absl::StatusOr<ServerHealth> health = client.ok() ? FetchHealth(*client) : client.status();
  if (!health.ok()) {
    return session->Fail(health.status());
  }
  const std::string& address = (*client)->address();
  if (!PrintStructured(*session, ToFields(address, *health)) && !session->options().quiet) {
    WriteFormatted("%s is %sserving\n", address.c_str(), health->is_serving ? "" : "not ");
    for (const auto& [check, is_good] : health->checks) {
      WriteFormatted("%-6s %s: %s\n", is_good ? "ok" : "failed", check->name, is_good ? check->good : check->bad);
    }
  }
  for (const std::string& warning : health->version_warnings) {
    session->Note(warning);
  }
  return health->is_serving ? kExitOk : kExitFailure;
}

}  // namespace

Command HealthCommand() {
  return {.name = "health",
          .help = "Check whether the server is up and accepts requests. The exit code is 0 if so",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .run = Health};
}

}  // namespace ampd::client
