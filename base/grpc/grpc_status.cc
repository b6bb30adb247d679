#include "base/grpc/grpc_status.h"

#include <string>

#include "absl/strings/cord.h"
#include "base/error.h"
#include "google/rpc/status.pb.h"

namespace ampd {

grpc::Status ToGrpcStatus(const absl::Status& uncut) {
  if (uncut.ok()) {
    return grpc::Status::OK;
  }
  const absl::Status status = FitToTrailers(uncut);
  // absl and gRPC use the same numbers for the canonical codes.
  const auto code = static_cast<grpc::StatusCode>(status.code());
  const std::string message(status.message());
  google::rpc::Status rich;
  rich.set_code(static_cast<int>(status.code()));
  rich.set_message(message);
  status.ForEachPayload([&rich](absl::string_view url, const absl::Cord& payload) {
    auto* detail = rich.add_details();
    detail->set_type_url(std::string(url));
    detail->set_value(std::string(payload));
  });
  return rich.details().empty() ? grpc::Status(code, message) : grpc::Status(code, message, rich.SerializeAsString());
}

absl::Status FromGrpcStatus(const grpc::Status& status) {
  if (status.ok()) {
    return absl::OkStatus();
  }
  absl::Status result(static_cast<absl::StatusCode>(status.error_code()), status.error_message());
  google::rpc::Status rich;
  if (rich.ParseFromString(status.error_details())) {
    for (const auto& detail : rich.details()) {
      result.SetPayload(detail.type_url(), absl::Cord(detail.value()));
    }
  }
  return result;
}

}  // namespace ampd
