#include "server/rpc/artifact_service.h"

#include <string>

#include "absl/time/time.h"

namespace ampd::server {
namespace {

// A stream that ends before its first message.
template <typename Reactor>
class EndedReactor final : public Reactor {
 public:
  explicit EndedReactor(const absl::Status& status) { this->Finish(ToGrpcStatus(status)); }
  void OnDone() override { delete this; }
};

}  // namespace

absl::Status ArtifactService::Refuse(grpc::CallbackServerContext* context, std::string_view method) const {
  const std::string full_method = "ampd.v1.ArtifactService/" + std::string(method);
  absl::Status status = environment_->guard->Check(*context, full_method);
  if (status.ok()) {
    status = UnsupportedField("ArtifactService." + std::string(method), "this server keeps no artifacts");
  }
  environment_->observer->Finished(full_method, status.code(), absl::ZeroDuration(), /*is_stream=*/false);
  return status;
}

grpc::ServerReadReactor<v1::UploadArtifactRequest>* ArtifactService::UploadArtifact(
    grpc::CallbackServerContext* context, v1::Artifact*) {
  return new EndedReactor<grpc::ServerReadReactor<v1::UploadArtifactRequest>>(Refuse(context, "UploadArtifact"));
}

grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* ArtifactService::DownloadArtifact(
    grpc::CallbackServerContext* context, const v1::DownloadArtifactRequest*) {
  return new EndedReactor<grpc::ServerWriteReactor<v1::DownloadArtifactResponse>>(Refuse(context, "DownloadArtifact"));
}

grpc::ServerUnaryReactor* ArtifactService::ListArtifacts(grpc::CallbackServerContext* context,
                                                         const v1::ListArtifactsRequest*, v1::ListArtifactsResponse*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(Refuse(context, "ListArtifacts")));
  return reactor;
}

grpc::ServerUnaryReactor* ArtifactService::DeleteArtifact(grpc::CallbackServerContext* context,
                                                          const v1::DeleteArtifactRequest*, google::protobuf::Empty*) {
  grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
  reactor->Finish(ToGrpcStatus(Refuse(context, "DeleteArtifact")));
  return reactor;
}

}  // namespace ampd::server
