#include <string>
#include <string_view>
#include <vector>

#include "client/commands/context/context.h"
#include "client/terminal/contexts.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns the files that the context has for its connection, such as the token file, as pairs of name and path.
PlainFields FilesOf(const NamedServer& server) {
  PlainFields fields;
  ConnectionFiles files = server.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (!file.in(files).empty()) {
      fields.push_back({file.name == std::string_view("token-file") ? "tokenFile" : file.name, file.in(files)});
    }
  }
  return fields;
}

int ListContexts(Session* session) {
  const auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  std::vector<std::vector<std::string>> rows;
  std::vector<PlainFields> list;
  for (const auto& [name, server] : contexts->servers) {
    const std::string& address = server.address;
    const bool current = name == contexts->current;
    rows.push_back({current ? "*" : " ", Printable(name), Printable(address)});
    list.push_back({{"name", name},
                    {"address", address},
                    {"current", current},
                    {"tenant", server.tenant},
                    {"files", FilesOf(server)}});
  }
  if (session->names_only()) {
    for (const auto& [name, unused] : contexts->servers) {
      WriteText(Printable(name) + "\n");
    }
    return kExitOk;
  }
  if (session->options().output == OutputFormat::kCsv) {
    std::vector<Cells> cells;
    for (const auto& [name, server] : contexts->servers) {
      cells.push_back({Printable(name), Printable(server.address), name == contexts->current ? "true" : "false",
                       Printable(server.tenant), Printable(server.files.token), Printable(server.files.tls.ca),
                       Printable(server.files.tls.certificate), Printable(server.files.tls.key)});
    }
    PrintCsv(*session, {"name", "address", "is_current", "tenant", "token_file", "ca", "cert", "key"}, cells);
    return kExitOk;
  }
  if (PrintStructured(*session, list)) {
    return kExitOk;
  }
  if (rows.empty()) {
    session->Note("no contexts; name a server with: ampctl context add NAME ADDRESS");
    return kExitOk;
  }
  PrintTable(*session, {" ", "NAME", "ADDRESS"}, rows);
  return kExitOk;
}

}  // namespace

Command ListContextsCommand() {
  return {.name = "list",
          .alias = "ls",
          .help = "List the named servers",
          .formats = ListFormatsBut({OutputFormat::kWide}),
          .run = ListContexts};
}

}  // namespace ampd::client
