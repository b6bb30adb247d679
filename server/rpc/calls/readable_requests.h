#pragma once

#include <grpcpp/grpcpp.h>
#include <grpcpp/impl/codegen/proto_utils.h>

#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/api/unknown_fields.h"

// Makes gRPC pass requests that cannot be parsed on to the services. By default gRPC ends such a call before any
// service sees it: a unary call with UNIMPLEMENTED and no text, and a stream as if the client had ended it. With this
// header the service gets the message, marked as unreadable, and answers INVALID_ARGUMENT (CheckReadable). Every header
// of server/rpc with a service must include this header before gRPC's templates are instantiated. A test sends
// unparsable bytes to every method.
namespace ampd::server {

template <typename Request>
class ReadsAnyBytes {
 public:
  static grpc::Status Serialize(const Request& message, grpc::ByteBuffer* bytes, bool* own_buffer) {
    return grpc::GenericSerialize<grpc::ProtoBufferWriter, Request>(message, bytes, own_buffer);
  }
  static grpc::Status Deserialize(grpc::ByteBuffer* bytes, Request* message) {
    if (bytes == nullptr || !bytes->Valid()) {
      return {grpc::StatusCode::INVALID_ARGUMENT, "the request has no message"};
    }
    if (!grpc::GenericDeserialize<grpc::ProtoBufferReader, Request>(bytes, message).ok()) {
      MarkUnreadable(message);
    }
    return grpc::Status::OK;
  }
};

}  // namespace ampd::server

namespace grpc {

template <>
class SerializationTraits<ampd::v1::CreateJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::CreateJobRequest> {
};
template <>
class SerializationTraits<ampd::v1::GetJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::GetJobRequest> {};
template <>
class SerializationTraits<ampd::v1::GetServerInfoRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::GetServerInfoRequest> {};
template <>
class SerializationTraits<ampd::v1::ListJobsRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::ListJobsRequest> {};
template <>
class SerializationTraits<ampd::v1::FindJobsRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::FindJobsRequest> {};
template <>
class SerializationTraits<ampd::v1::DownloadCheckpointFileRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::DownloadCheckpointFileRequest> {};
template <>
class SerializationTraits<ampd::v1::FilePiece> : public ampd::server::ReadsAnyBytes<ampd::v1::FilePiece> {};
template <>
class SerializationTraits<ampd::v1::CancelJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::CancelJobRequest> {
};
template <>
class SerializationTraits<ampd::v1::PauseJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::PauseJobRequest> {};
template <>
class SerializationTraits<ampd::v1::ResumeJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::ResumeJobRequest> {
};
template <>
class SerializationTraits<ampd::v1::UpdateJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::UpdateJobRequest> {
};
template <>
class SerializationTraits<ampd::v1::DeleteJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::DeleteJobRequest> {
};
template <>
class SerializationTraits<ampd::v1::CloneJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::CloneJobRequest> {};
template <>
class SerializationTraits<ampd::v1::WatchJobRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::WatchJobRequest> {};
template <>
class SerializationTraits<ampd::v1::ListMetricPointsRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ListMetricPointsRequest> {};
template <>
class SerializationTraits<ampd::v1::ListEventsRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ListEventsRequest> {};
template <>
class SerializationTraits<ampd::v1::ExplainJobRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ExplainJobRequest> {};
template <>
class SerializationTraits<ampd::v1::EstimateJobRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::EstimateJobRequest> {};
template <>
class SerializationTraits<ampd::v1::ResolvePolicyRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ResolvePolicyRequest> {};
template <>
class SerializationTraits<ampd::v1::TailLogsRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::TailLogsRequest> {};
template <>
class SerializationTraits<ampd::v1::ListCheckpointsRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ListCheckpointsRequest> {};
template <>
class SerializationTraits<ampd::v1::DeleteCheckpointRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::DeleteCheckpointRequest> {};
template <>
class SerializationTraits<ampd::v1::ListWorkersRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ListWorkersRequest> {};
template <>
class SerializationTraits<ampd::v1::DrainWorkerRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::DrainWorkerRequest> {};
template <>
class SerializationTraits<ampd::v1::UndrainWorkerRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::UndrainWorkerRequest> {};
template <>
class SerializationTraits<ampd::v1::RemoveWorkerRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::RemoveWorkerRequest> {};
template <>
class SerializationTraits<ampd::v1::GetUploadRequest> : public ampd::server::ReadsAnyBytes<ampd::v1::GetUploadRequest> {
};
template <>
class SerializationTraits<ampd::v1::UploadArtifactRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::UploadArtifactRequest> {};
template <>
class SerializationTraits<ampd::v1::DownloadArtifactRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::DownloadArtifactRequest> {};
template <>
class SerializationTraits<ampd::v1::ListArtifactsRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::ListArtifactsRequest> {};
template <>
class SerializationTraits<ampd::v1::DeleteArtifactRequest>
    : public ampd::server::ReadsAnyBytes<ampd::v1::DeleteArtifactRequest> {};
template <>
class SerializationTraits<ampd::v1::WorkerReport> : public ampd::server::ReadsAnyBytes<ampd::v1::WorkerReport> {};
template <>
class SerializationTraits<ampd::v1::TelemetryUpload> : public ampd::server::ReadsAnyBytes<ampd::v1::TelemetryUpload> {};

}  // namespace grpc
