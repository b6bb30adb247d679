#include <filesystem>
#include <memory>
#include <string>
#include <utility>

#include "absl/strings/str_cat.h"
#include "client/commands/context/context.h"
#include "client/commands/context/note_default.h"
#include "client/terminal/contexts.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

struct AddOptions {
  std::string name;
  std::string address;
};

// Returns the server as messages name it: its address and its files, "127.0.0.1:7070  ca=/etc/ampd/ca.pem".
std::string Shown(const NamedServer& server) {
  std::string text = server.address;
  ConnectionFiles files = server.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    absl::StrAppend(&text, file.in(files).empty() ? "" : absl::StrCat("  ", file.name, "=", file.in(files)));
  }
  return Printable(text);
}

// Refuses what the file of contexts could not hold, and files with which no connection could be made.
absl::Status CheckServer(const std::string& name, const NamedServer& server) {
  if (!IsContextName(name) || !IsServerAddress(server.address)) {
    return absl::InvalidArgumentError(
        absl::StrCat("cannot add context '", name, "' with address '", server.address,
                     "': the name must be one word, without ':', and must not be 'current'; the address must be "
                     "HOST:PORT or unix:/PATH"));
  }
  ConnectionFiles files = server.files;
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (file.in(files).find_first_of(" \t\r\n") != std::string::npos) {
      return absl::InvalidArgumentError(
          absl::StrCat("cannot add the file '", file.in(files), "': its path must have no blanks"));
    }
  }
  return ConnectionTo(server.address, server.files, {.files = {}, .reads_environment = false}).status();
}

int AddContext(Session* session, const AddOptions& options) {
  const std::string& name = options.name;
  // The files are options of every command.
  NamedServer server{.address = options.address, .files = session->options().files};
  for (const ConnectionFileName& file : ConnectionFileNames()) {
    if (std::string& path = file.in(server.files); !path.empty()) {
      std::error_code ignored;
      path = std::filesystem::absolute(path, ignored).string();
    }
  }
  auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (const absl::Status good = CheckServer(name, server); !good.ok()) {
    return session->Fail(good);
  }
  NamedServer& named = contexts->servers[name];
  const std::string before = Shown(std::exchange(named, server));
  const std::string now = Shown(server);
  contexts->current = contexts->current.empty() ? name : contexts->current;
  const absl::Status written = WriteContexts(*contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  if (!before.empty()) {
    session->Note(before == now ? absl::StrCat("context ", name, " was already ", now)
                                : absl::StrCat("replaced context ", name, ": it was ", before, " and is now ", now));
  }
  if (contexts->current == name) {
    NoteDefault(*session, *contexts);
  } else {
    session->Note(absl::StrCat("to use it by default: ampctl context use ", name));
  }
  return kExitOk;
}

}  // namespace

Command AddContextCommand() {
  const auto options = std::make_shared<AddOptions>();
  return {.name = "add",
          .help = "Give a server a name, or give the name to another server",
          .examples =
              "  ampctl context add lab 127.0.0.1:7070\n  ampctl context use lab\n  ampctl context add ops "
              "127.0.0.1:7070 --token-file ~/.ampd-token",
          .arguments =
              {{.name = "name", .value = &options->name, .text = "NAME", .help = "Name: one word", .required = true},
               {.name = "server",
                .value = &options->address,
                .text = "ADDRESS",
                .help = "Address of the server: HOST:PORT, or unix:/PATH of its socket",
                .required = true}},
          .run = [options](Session* session) { return AddContext(session, *options); }};
}

}  // namespace ampd::client
