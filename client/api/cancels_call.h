#pragma once

#include <grpcpp/client_context.h>

#include "client/api/cancellation.h"

namespace ampd::client {

// While this object exists, a stop that `cancellation` requests cancels the gRPC call of `context`. If `cancellation`
// is null, this object does nothing.
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
