#pragma once

#include "ampd/v1/artifact_service.grpc.pb.h"
#include "server/artifacts/artifact_store.h"
#include "server/rpc/calls/call.h"
#include "server/rpc/calls/ticker.h"

namespace ampd::server {

// Implements ampd.v1.ArtifactService with the artifact store. Thread-safe.
class ArtifactService final : public v1::ArtifactService::CallbackService {
 public:
  struct Options {
    const CallEnvironment* environment = nullptr;
    ArtifactStore* store = nullptr;
    WorkPool* uploads = nullptr;  // For uploads only. Each may use a thread for minutes.
    Ticker* ticker = nullptr;
  };
  explicit ArtifactService(const Options& options) : options_(options) {}

  grpc::ServerUnaryReactor* GetUpload(grpc::CallbackServerContext* context, const v1::GetUploadRequest* request,
                                      v1::Upload* response) override;
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
  const Options options_;
};

}  // namespace ampd::server
