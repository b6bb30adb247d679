#pragma once

#include <string>

#include "base/status_macros.h"
#include "client/commands/find_job.h"
#include "client/terminal/session.h"

namespace ampd::client {

// Makes `call` and passes its answer to `show`, or prints the call's error. Returns the exit code.
template <typename Call, typename Show>
int CallAndShow(Session* session, Call call, Show show) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto answer = call(*client);
  if (!answer.ok()) {
    return session->Fail(answer.status());
  }
  show(*answer);
  return kExitOk;
}

// Finds the job that `text` names (FindJobId), makes `call` with its id, and passes the id and the answer to `show`.
// Prints any error. Returns the exit code.
template <typename Call, typename Show>
int CallForJob(Session* session, const std::string& text, Call call, Show show) {
  std::string id;
  return CallAndShow(
      session,
      [&](JobClient* client) -> decltype(call(client, id)) {
        AMPD_ASSIGN_OR_RETURN(id, FindJobId(client, text));
        return call(client, id);
      },
      [&](const auto& answer) { show(id, answer); });
}

}  // namespace ampd::client
