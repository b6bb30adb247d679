#pragma once

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

}  // namespace ampd::client
