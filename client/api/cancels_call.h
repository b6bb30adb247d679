#pragma once

#include <grpcpp/client_context.h>

#include "client/api/cancellation.h"

namespace ampd::client {

// Cancels the call of `context` when the cancellation is requested, as long as this object lives. `cancellation` may be
// null; then nothing cancels the call.
class CancelsCall {
 public:
  CancelsCall(Cancellation* cancellation, grpc::ClientContext* context) : cancellation_(cancellation) {
    if (cancellation_ != nullptr) {
      cancellation_->SetListener([context] { context->TryCancel(); });
    }
  }
  ~CancelsCall() {
    if (cancellation_ != nullptr) {
      cancellation_->SetListener(nullptr);
    }
  }
  CancelsCall(const CancelsCall&) = delete;
  CancelsCall& operator=(const CancelsCall&) = delete;

 private:
  Cancellation* const cancellation_;
};

}  // namespace ampd::client
