#pragma once

#include "ampd/v1/artifact_service.grpc.pb.h"
#include "server/rpc/call.h"

namespace ampd::server {

// ampd.v1.ArtifactService. This server keeps no artifacts: every method is refused with UNIMPLEMENTED, by its name.
// Thread-safe.
class ArtifactService final : public v1::ArtifactService::CallbackService {
 public:
  explicit ArtifactService(const CallEnvironment* environment) : environment_(environment) {}

  grpc::ServerReadReactor<v1::UploadArtifactRequest>* UploadArtifact(grpc::CallbackServerContext* context,
                                                                     v1::Artifact* response) override;
  grpc::ServerWriteReactor<v1::DownloadArtifactResponse>* DownloadArtifact(
      grpc::CallbackServerContext* context, const v1::DownloadArtifactRequest* request) override;
  grpc::ServerUnaryReactor* ListArtifacts(grpc::CallbackServerContext* context, const v1::ListArtifactsRequest* request,
                                          v1::ListArtifactsResponse* response) override;
  grpc::ServerUnaryReactor* DeleteArtifact(grpc::CallbackServerContext* context,
                                           const v1::DeleteArtifactRequest* request,
                                           google::protobuf::Empty* response) override;

 private:
  // What the guard says, or that `method` is not there.
  absl::Status Refuse(grpc::CallbackServerContext* context, std::string_view method) const;

  const CallEnvironment* const environment_;
};

}  // namespace ampd::server
