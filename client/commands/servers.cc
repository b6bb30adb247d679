#include <cstdio>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/health_checks.h"
#include "base/status_macros.h"
#include "client/commands/commands.h"
#include "client/render/table.h"
#include "client/terminal/output.h"

namespace ampd::client {

namespace {

// A server's health report, by the names of kHealthChecks.
struct ServerHealth {
  bool is_serving = false;
  std::vector<std::pair<const HealthCheck*, bool>> checks;  // omits checks that the server does not know
};

absl::StatusOr<ServerHealth> AskHealth(JobClient* client) {
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
  return health;
}

JsonMembers ToMembers(const std::string& address, const ServerHealth& health) {
  std::string checks;
  for (const auto& [check, is_good] : health.checks) {
    absl::StrAppend(&checks, checks.empty() ? "" : ",", "\"", check->name, "\":", is_good ? "true" : "false");
  }
  return {{"address", absl::StrCat("\"", address, "\"")},
          {"status", health.is_serving ? "\"SERVING\"" : "\"NOT_SERVING\""},
          {"checks", absl::StrCat("{", checks, "}")}};
}

}  // namespace

int Health(Session* session) {
  const auto client = session->Client();
  const absl::StatusOr<ServerHealth> health = client.ok() ? AskHealth(*client) : client.status();
  if (!health.ok()) {
    return session->Fail(health.status());
  }
  const std::string& address = (*client)->address();
  if (!PrintStructured(*session, ToMembers(address, *health)) && !session->options().quiet) {
    std::printf("%s is %sserving\n", address.c_str(), health->is_serving ? "" : "not ");
    for (const auto& [check, is_good] : health->checks) {
      std::printf("%-6s %s: %s\n", is_good ? "ok" : "failed", check->name, is_good ? check->good : check->bad);
    }
  }
  return health->is_serving ? kExitOk : kExitFailure;
}

int AddContext(Session* session, const std::string& name, const std::string& address) {
  auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (name == "current" || name.find_first_of(" \t\n:") != std::string::npos || !IsHostAndPort(address)) {
    return session->Fail(absl::InvalidArgumentError(absl::StrCat(
        "a context is one word other than 'current', and HOST:PORT, not '", name, "' and '", address, "'")));
  }
  contexts->addresses[name] = address;
  contexts->current = contexts->current.empty() ? name : contexts->current;
  const absl::Status written = WriteContexts(ContextsPath(), *contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  session->Note(contexts->current == name ? absl::StrCat("context ", name, " is in use")
                                          : absl::StrCat("use it with: ampctl context use ", name));
  return kExitOk;
}

int UseContext(Session* session, const std::string& name) {
  auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (!contexts->addresses.contains(name)) {
    return session->Fail(
        Error(absl::StatusCode::kNotFound, "CONTEXT_NOT_FOUND", absl::StrCat("there is no context '", name, "'")));
  }
  contexts->current = name;
  const absl::Status written = WriteContexts(ContextsPath(), *contexts);
  return written.ok() ? kExitOk : session->Fail(written);
}

int ListContexts(Session* session) {
  const auto contexts = ReadContexts(ContextsPath());
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<PlainFields> list;
  for (const auto& [name, address] : contexts->addresses) {
    const bool current = name == contexts->current;
    rows.push_back({current ? "*" : " ", name, address});
    list.push_back({{"name", name}, {"address", address}, {"current", current}});
  }
  if (session->options().quiet || session->options().output == OutputFormat::kName) {
    for (const auto& [name, unused] : contexts->addresses) {
      std::printf("%s\n", name.c_str());
    }
    return kExitOk;
  }
  if (PrintStructured(*session, list)) {
    return kExitOk;
  }
  if (rows.empty()) {
    session->Note("no contexts; name a server with: ampctl context add NAME HOST:PORT");
    return kExitOk;
  }
  std::fputs(RenderTable({" ", "NAME", "ADDRESS"}, rows, !session->options().no_headers).c_str(), stdout);
  return kExitOk;
}

int ShowContext(Session* session) {
  const auto address = ResolveAddress(session->options().address);
  if (!address.ok()) {
    return session->Fail(address.status());
  }
  if (PrintStructured(*session, PlainFields{{"address", address->address}, {"origin", address->origin}})) {
    return kExitOk;
  }
  std::printf("%s  (from %s)\n", address->address.c_str(), address->origin.c_str());
  return kExitOk;
}

}  // namespace ampd::client
