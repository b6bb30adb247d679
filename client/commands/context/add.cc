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

int AddContext(Session* session, const AddOptions& options) {
  // Every command has the options for the tenant and the files, so they are in session->options().
  NamedServer server{
      .address = options.address, .tenant = session->options().tenant, .files = session->options().files};
  MakeAbsolute(&server);
  // Report an unreadable file of contexts before any error in the new context.
  if (const auto contexts = ReadContexts(); !contexts.ok()) {
    return session->Fail(contexts.status());
  }
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
              "Save a server under a short name. If the name is already used, this server replaces the old one. Does "
              "not connect to the server. The server becomes the default only if there is no default yet. To check a "
              "token and use the server by default: ampctl login",
          .examples =
              "  ampctl context add lab 127.0.0.1:7070\n  ampctl context use lab\n  ampctl context add ops "
              "127.0.0.1:7070 --token-file ~/.ampd-token",
          .arguments = NamedServerArguments(&options->name, &options->address),
          .run = [options](Session* session) { return AddContext(session, *options); }};
}

}  // namespace ampd::client
