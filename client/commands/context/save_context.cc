#include "client/commands/context/save_context.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <filesystem>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "client/commands/checks.h"
#include "client/commands/context/note_default.h"
#include "client/terminal/server_address.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns the server as messages show it, with its address, tenant and files: "127.0.0.1:7070  ca=/etc/ampd/ca.pem".
std::string Shown(const NamedServer& server) {
  std::string text = absl::StrCat(server.address, server.tenant.empty() ? "" : "  tenant=" + server.tenant);
  ConnectionFiles files = server.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    absl::StrAppend(&text, file.in(files).empty() ? "" : absl::StrCat("  ", file.name, "=", file.in(files)));
  }
  return Printable(text);
}

}  // namespace

std::vector<Argument> NamedServerArguments(std::string* name, std::string* address) {
  return {{.name = "name",
           .value = name,
           .text = "NAME",
           .help = "Your own short name for the server, such as prod",
           .required = true},
          {.name = "server",
           .value = address,
           .text = "ADDRESS",
           .help = "Address of the server: HOST:PORT (the port is required; no https://; an IPv6 address in brackets: "
                   "[::1]:7070), or unix:/PATH of its socket. Also stored: the value of --tenant, and the paths (not "
                   "the contents) of the files given with --ca, --cert, --key and --token-file",
           .required = true}};
}

void MakeAbsolute(NamedServer* server) {
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (std::string& path = file.in(server->files); !path.empty()) {
      std::error_code ignored;
      path = std::filesystem::absolute(path, ignored).string();
    }
  }
}

absl::Status CheckNamedServer(const std::string& name, const NamedServer& server) {
  if (!IsContextName(name)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot add context '", name, "': a name must be one word, without ':', and not 'current'"));
  }
  if (!IsServerAddress(server.address)) {
    return absl::InvalidArgumentError(absl::StrCat("cannot add context '", name, "': the address '", server.address,
                                                   "' ", WhyNoAddress(server.address)));
  }
  AMPD_RETURN_IF_ERROR(CheckIsNoOtherFile(
      server.address, absl::StrCat("cannot add context '", name, "': the address '", server.address, "'")));
  if (!server.tenant.empty()) {
    AMPD_RETURN_IF_ERROR(CheckTenant("--tenant", server.tenant));
  }
  ConnectionFiles files = server.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (file.in(files).find_first_of(" \t\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot add context '", name, "': the path '", file.in(files), "' must have no blanks"));
    }
  }
  return ConnectionTo(server.address, server.files, {.files = {}, .reads_environment = false}).status();
}

absl::Status NoContext(const Contexts& contexts, const std::string& name) {
  std::vector<std::string> names;
  for (const auto& [known, server] : contexts.servers) {
    names.push_back(known);
  }
  return WithMeantName(
      Error(absl::StatusCode::kNotFound, "CONTEXT_NOT_FOUND", absl::StrCat("there is no context '", name, "'")), name,
      names);
}

void ForgetToken(const Session& session, const std::string& name, const NamedServer& before, const Contexts& now) {
  const std::string& token = before.files.token;
  const absl::StatusOr<std::string> own = PathBesideContexts(TokenFileName(name));
  const bool is_used = std::any_of(now.servers.begin(), now.servers.end(),
                                   [&token](const auto& entry) { return entry.second.files.token == token; });
  if (token.empty() || !own.ok() || token != *own || is_used) {
    return;
  }
  if (unlink(token.c_str()) == 0) {
    session.Note(absl::StrCat("deleted the token in ", Printable(token)));
  } else if (errno != ENOENT) {
    session.Warn(
        absl::StrCat("warning: the token in ", Printable(token), " could not be deleted: ", std::strerror(errno)));
  }
}

int SaveContext(Session* session, const std::string& name, const NamedServer& server, bool use) {
  auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  NamedServer& named = contexts->servers[name];
  const NamedServer replaced = std::exchange(named, server);
  const std::string before = Shown(replaced);
  const std::string now = Shown(server);
  contexts->current = use || contexts->current.empty() ? name : contexts->current;
  const absl::Status written = WriteContexts(*contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  if (!before.empty()) {
    session->Note(before == now ? absl::StrCat("context ", name, " was already ", now)
                                : absl::StrCat("replaced context ", name, ": it was ", before, " and is now ", now));
    ForgetToken(*session, name, replaced, *contexts);
  }
  if (contexts->current == name) {
    NoteDefault(*session, *contexts);
  } else {
    session->Note(absl::StrCat("to use this server by default: ampctl context use ", name));
  }
  return kExitOk;
}

}  // namespace ampd::client
