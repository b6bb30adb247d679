#include <cstdio>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "client/commands/commands.h"
#include "client/commands/output.h"
#include "client/render/table.h"

namespace ampd::client {

int Health(Session* session) {
  const auto client = session->Client();
  const absl::Status healthy = client.ok() ? (*client)->CheckHealth("") : client.status();
  if (!healthy.ok()) {
    return session->Fail(healthy);
  }
  const std::string& address = (*client)->address();
  if (!PrintStructured(*session, PlainFields{{"address", address}, {"status", "SERVING"}}) &&
      !session->options().quiet) {
    std::printf("%s is serving\n", address.c_str());
  }
  return kExitOk;
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
