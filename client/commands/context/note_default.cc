#include "client/commands/context/note_default.h"

#include "absl/strings/str_cat.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {

void NoteDefault(const Session& session, const Contexts& contexts) {
  const auto found = contexts.servers.find(contexts.current);
  if (found == contexts.servers.end()) {
    session.Note("there is no default context now; to choose one: ampctl context use NAME");
    return;
  }
  session.Note(
      absl::StrCat("commands now use context ", contexts.current, " by default: ", Printable(found->second.address)));
  const auto used = ResolveAddress("");
  if (used.ok() && used->origin != absl::StrCat("context ", contexts.current)) {
    session.Warn(absl::StrCat("warning: here, commands still use ", Printable(used->address), ", because ",
                              Printable(used->origin), " takes precedence (see: ampctl context show)"));
  }
}

}  // namespace ampd::client
