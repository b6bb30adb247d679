#include "client/commands/job/follow/detach.h"

#include <unistd.h>

#include "absl/strings/str_cat.h"

namespace ampd::client {

int Detach(Session* session, const std::string& id, const char* verb) {
  session->Note(
      absl::StrCat("detached; the job continues. To attach again: ", session->Command("job "), verb, " ", id));
  return kExitInterrupted;
}

int DetachAfterEcho(Session* session, const std::string& id, const char* verb) {
  if (isatty(STDIN_FILENO) == 1) {
    session->Note("");
  }
  return Detach(session, id, verb);
}

}  // namespace ampd::client
