#include "client/commands/confirm_delete.h"

#include "absl/strings/str_cat.h"
#include "client/terminal/confirm.h"

namespace ampd::client {

std::optional<int> AskBeforeDelete(Session* session, bool confirmed, const std::string& question,
                                   const std::string& words) {
  if (confirmed) {
    return std::nullopt;
  }
  if (!CanAsk()) {
    return session->Fail(absl::InvalidArgumentError(absl::StrCat(
        "cannot ask for confirmation, because stdin is not a terminal; use --yes: ", session->Command(words))));
  }
  if (!Confirm(question)) {
    session->Note("nothing was deleted");
    return kExitFailure;
  }
  return std::nullopt;
}

}  // namespace ampd::client
