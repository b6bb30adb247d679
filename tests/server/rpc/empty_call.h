#pragma once

#include <grpcpp/generic/generic_stub.h>

#include <string>
#include <string_view>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "base/grpc/grpc_status.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {

// Calls a unary or streaming method with one message that has these bytes.
inline absl::Status CallWithBytes(const ServerAccess& access, std::string_view method, const std::string& bytes) {
  grpc::GenericStub stub(access.NewChannel());
  auto context = Context(absl::Seconds(20));
  grpc::CompletionQueue queue;
  const grpc::Slice message(bytes);
  auto call = stub.PrepareUnaryCall(context.get(), absl::StrCat("/", std::string(method)),
                                    grpc::ByteBuffer(&message, 1), &queue);
  call->StartCall();
  grpc::ByteBuffer answer;
  grpc::Status status;
  call->Finish(&answer, &status, nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  return FromGrpcStatus(status);
}

// Calls a unary or streaming method with one empty message.
inline absl::Status CallEmpty(const ServerAccess& access, std::string_view method) {
  return CallWithBytes(access, method, "");
}

}  // namespace ampd::server
