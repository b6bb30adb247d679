#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/context/context.h"
#include "client/commands/context/note_default.h"
#include "client/commands/context/save_context.h"
#include "client/commands/suggestions.h"
#include "client/terminal/contexts.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

int RemoveContext(Session* session, const std::string& name) {
  auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  const auto found = contexts->servers.find(name);
  if (found == contexts->servers.end()) {
    return session->Fail(NoContext(*contexts, name));
  }
  const NamedServer removed = found->second;
  contexts->servers.erase(found);
  const bool was_current = contexts->current == name;
  contexts->current = was_current ? "" : contexts->current;
  if (const absl::Status written = WriteContexts(*contexts); !written.ok()) {
    return session->Fail(written);
  }
  session->Note(absl::StrCat("removed context ", name, ": ", Printable(removed.address)));
  ForgetToken(*session, name, removed, *contexts);
  if (was_current) {
    NoteDefault(*session, *contexts);
  }
  return kExitOk;
}

}  // namespace

Command RemoveContextCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "remove",
          .alias = "rm",
          .help =
              "Remove a server from the list of named servers, and delete the token that login stored for it. The "
              "server itself is not changed",
          .arguments = {{.name = "name",
                         .value = name.get(),
                         .text = "NAME",
                         .help = "Name of the server, as in ampctl context list",
                         .required = true,
                         .suggest = SuggestContexts}},
          .run = [name](Session* session) { return RemoveContext(session, *name); }};
}

}  // namespace ampd::client
