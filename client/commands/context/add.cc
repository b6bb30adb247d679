#include <memory>
#include <string>

#include "client/commands/context/context.h"
#include "client/commands/context/save_context.h"

namespace ampd::client {
namespace {

struct AddOptions {
  std::string name;
  std::string address;
};

// If the context `name` already has the server's address, takes from it the files that `server` lacks. So a change of
// the tenant does not lose the token that `ampctl login` stored.
void KeepFilesOfSameAddress(const Contexts& contexts, const std::string& name, NamedServer* server) {
  const auto known = contexts.servers.find(name);
  if (known == contexts.servers.end() || known->second.address != server->address) {
    return;
  }
  ConnectionFiles kept = known->second.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (file.in(server->files).empty()) {
      file.in(server->files) = file.in(kept);
    }
  }
}

int AddContext(Session* session, const AddOptions& options) {
  // The options that name the tenant, the TLS files and the token file belong to every command of ampctl. So their
  // values are in session->options().
  NamedServer server{
      .address = options.address, .tenant = session->options().tenant, .files = session->options().files};
  MakeAbsolute(&server);
  // Report an unreadable file of contexts before any error in the new context.
  const auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  KeepFilesOfSameAddress(*contexts, options.name, &server);
  if (const absl::Status good = CheckNamedServer(options.name, server); !good.ok()) {
    return session->Fail(good);
  }
  return SaveContext(session, options.name, server, /*use=*/false);
}

}  // namespace

Command AddContextCommand() {
  const auto options = std::make_shared<AddOptions>();
  return {.name = "add",
          .help =
              "Save a server under a short name. If the name is already used, this server replaces the old one. If the "
              "address stays the same, the files (token, TLS) that you do not give are kept. Does not connect to the "
              "server. The server becomes the default only if there is no default yet. To check a token and use the "
              "server by default: ampctl login",
          .examples =
              "  ampctl context add lab 127.0.0.1:7070\n  ampctl context use lab\n  ampctl context add ops "
              "127.0.0.1:7070 --token-file ~/.ampd-token",
          .arguments = NamedServerArguments(&options->name, &options->address),
          .run = [options](Session* session) { return AddContext(session, *options); }};
}

}  // namespace ampd::client
