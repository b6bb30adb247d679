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

int AddContext(Session* session, const AddOptions& options) {
  const auto& [name, address] = options;
  auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (!IsContextName(name) || !IsServerAddress(address)) {
    return session->Fail(absl::InvalidArgumentError(
        absl::StrCat("cannot add context '", name, "' with address '", address,
                     "': the name must be one word, without ':', and must not be 'current'; the address must be "
                     "HOST:PORT or unix:/PATH")));
  }
  std::string& named = contexts->addresses[name];
  const std::string before = std::exchange(named, address);
  contexts->current = contexts->current.empty() ? name : contexts->current;
  const absl::Status written = WriteContexts(*contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  if (!before.empty()) {
    session->Note(before == address ? absl::StrCat("context ", name, " was already ", Printable(address))
                                    : absl::StrCat("replaced context ", name, ": it was ", Printable(before),
                                                   " and is now ", Printable(address)));
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
          .examples = "  ampctl context add lab 127.0.0.1:7070\n  ampctl context use lab",
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
