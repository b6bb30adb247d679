#include <memory>
#include <string>

#include "client/commands/context/context.h"
#include "client/commands/context/note_default.h"
#include "client/commands/context/save_context.h"
#include "client/commands/suggestions.h"
#include "client/terminal/contexts.h"

namespace ampd::client {
namespace {

int UseContext(Session* session, const std::string& name) {
  auto contexts = ReadContexts();
  if (!contexts.ok()) {
    return session->Fail(contexts.status());
  }
  if (!contexts->servers.contains(name)) {
    return session->Fail(NoContext(*contexts, name));
  }
  contexts->current = name;
  const absl::Status written = WriteContexts(*contexts);
  if (!written.ok()) {
    return session->Fail(written);
  }
  NoteDefault(*session, *contexts);
  return kExitOk;
}

}  // namespace

Command UseContextCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "use",
          .help = "Choose the server that commands use by default",
          .arguments = {{.name = "name",
                         .value = name.get(),
                         .text = "NAME",
                         .help = "Name of the server, as in ampctl context list",
                         .required = true,
                         .suggest = SuggestContexts}},
          .run = [name](Session* session) { return UseContext(session, *name); }};
}

}  // namespace ampd::client
