#pragma once

#include <grpcpp/grpcpp.h>

#include "absl/status/status.h"
#include "client/api/cancels_call.h"
#include "client/api/end_of_call.h"
#include "client/api/transfer.h"

namespace ampd::client {

// Calls `start(context)`, which begins a streaming call, and passes the `content` of each message that arrives to
// `write`. If `write` fails, cancels the call and returns the error of `write`; otherwise returns the call's status.
template <typename Response, typename Start>
absl::Status ReceivePieces(Cancellation* cancellation, const Start& start, const WritePiece& write) {
  grpc::ClientContext context;
  const CancelsCall cancels(cancellation, &context);
  const auto stream = start(&context);
  Response message;
  absl::Status written;
  while (written.ok() && stream->Read(&message)) {
    written = write(message.content());
  }
  if (!written.ok()) {
    context.TryCancel();
  }
  const grpc::Status status = stream->Finish();
  return written.ok() ? EndOfCall(status, cancellation->cancelled()) : written;
}

}  // namespace ampd::client
