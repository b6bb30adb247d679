#pragma once

#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/synchronization/mutex.h"
#include "ampd/v1/artifact_service.grpc.pb.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/grpc/grpc_status.h"

namespace ampd::client {

// A fake artifact service that keeps artifacts in memory. It behaves like the real service: an interrupted upload can
// be resumed, and an upload with a wrong digest is discarded. The test sets the faults. Thread-safe.
class FakeArtifacts final : public v1::ArtifactService::Service {
 public:
  struct Script {
    int cut_uploads = 0;    // how many uploads end with UNAVAILABLE after `cut_after` more bytes
    int cut_downloads = 0;  // how many downloads end in the same way
    int64_t cut_after = 0;
    absl::Status refusal;                 // error of every upload and deletion, if not OK
    std::vector<int64_t> upload_offsets;  // offset at which each upload stream began
    std::vector<int64_t> download_offsets;
  };
  Script TakeScript() {
    absl::MutexLock lock(&mutex_);
    return script_;
  }
  void SetScript(const Script& script) {
    absl::MutexLock lock(&mutex_);
    script_ = script;
  }

  // Adds an artifact that looks like an upload of a file with this name. Returns the artifact's name.
  std::string Add(const std::string& content, const std::string& file_name = "") {
    absl::MutexLock lock(&mutex_);
    contents_[Sha256Hex(content)] = content;
    file_names_[Sha256Hex(content)] = file_name;
    return Sha256Hex(content);
  }
  // Adds a file that the service lists as an artifact of every job.
  void AddToEveryJob(const std::string& content, const std::string& file_name) {
    const std::string name = Add(content, file_name);
    absl::MutexLock lock(&mutex_);
    of_every_job_.insert(name);
  }
  // Adds an incomplete upload of the content with this digest. The service has received only `bytes`.
  void AddPartial(const std::string& sha256, const std::string& bytes) {
    absl::MutexLock lock(&mutex_);
    partials_[sha256] = bytes;
  }
  std::string Content(const std::string& name) {
    absl::MutexLock lock(&mutex_);
    return contents_.contains(name) ? contents_.at(name) : "none";
  }

  grpc::Status GetUpload(grpc::ServerContext*, const v1::GetUploadRequest* request, v1::Upload* upload) override {
    absl::MutexLock lock(&mutex_);
    if (contents_.contains(request->sha256())) {
      *upload->mutable_artifact() = ArtifactOf(request->sha256());
    }
    upload->set_received_bytes(static_cast<int64_t>(partials_[request->sha256()].size()));
    return grpc::Status::OK;
  }
  grpc::Status UploadArtifact(grpc::ServerContext*, grpc::ServerReader<v1::UploadArtifactRequest>* reader,
                              v1::Artifact* artifact) override {
    v1::UploadArtifactRequest request;
    if (!reader->Read(&request)) {
      return ToGrpcStatus(InvalidFields({{"sha256", "must be set"}}));
    }
    const std::string sha256 = request.sha256();
    absl::MutexLock lock(&mutex_);
    if (!script_.refusal.ok()) {
      return ToGrpcStatus(script_.refusal);
    }
    std::string& bytes = partials_[sha256];
    script_.upload_offsets.push_back(request.offset_bytes());
    if (request.offset_bytes() != static_cast<int64_t>(bytes.size())) {
      return ToGrpcStatus(Error(absl::StatusCode::kAborted, "OFFSET_MISMATCH", "go on elsewhere"));
    }
    const bool cut = script_.cut_uploads > 0;
    script_.cut_uploads -= cut ? 1 : 0;
    const size_t end = bytes.size() + static_cast<size_t>(script_.cut_after);
    file_names_[sha256] = request.file_name();
    do {
      bytes += request.content();
      if (cut && bytes.size() >= end) {
        bytes.resize(end);
        return grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting");
      }
    } while (reader->Read(&request));
    const std::string content = std::move(bytes);
    partials_.erase(sha256);
    if (Sha256Hex(content) != sha256) {
      return ToGrpcStatus(Error(absl::StatusCode::kInvalidArgument, "DIGEST_MISMATCH", "something else came"));
    }
    contents_[sha256] = content;
    *artifact = ArtifactOf(sha256);
    return grpc::Status::OK;
  }
  grpc::Status DownloadArtifact(grpc::ServerContext*, const v1::DownloadArtifactRequest* request,
                                grpc::ServerWriter<v1::DownloadArtifactResponse>* writer) override {
    absl::MutexLock lock(&mutex_);
    if (!contents_.contains(request->name())) {
      return NotFound(request->name());
    }
    script_.download_offsets.push_back(request->offset_bytes());
    const std::string& content = contents_.at(request->name());
    if (request->offset_bytes() > static_cast<int64_t>(content.size())) {
      return ToGrpcStatus(InvalidFields({{"offset_bytes", "is beyond the content"}}));
    }
    const bool cut = script_.cut_downloads > 0;
    script_.cut_downloads -= cut ? 1 : 0;
    v1::DownloadArtifactResponse piece;
    piece.set_content(content.substr(static_cast<size_t>(request->offset_bytes()),
                                     cut ? static_cast<size_t>(script_.cut_after) : std::string::npos));
    writer->Write(piece);
    return cut ? grpc::Status(grpc::StatusCode::UNAVAILABLE, "restarting") : grpc::Status::OK;
  }
  grpc::Status ListArtifacts(grpc::ServerContext*, const v1::ListArtifactsRequest* request,
                             v1::ListArtifactsResponse* page) override {
    absl::MutexLock lock(&mutex_);
    for (const auto& [name, content] : contents_) {
      v1::Artifact artifact = ArtifactOf(name);
      if (request->job_id().empty() || of_every_job_.contains(name)) {
        *page->add_artifacts() = std::move(artifact);
      }
    }
    return grpc::Status::OK;
  }
  grpc::Status DeleteArtifact(grpc::ServerContext*, const v1::DeleteArtifactRequest* request,
                              google::protobuf::Empty*) override {
    absl::MutexLock lock(&mutex_);
    if (!script_.refusal.ok()) {
      return ToGrpcStatus(script_.refusal);
    }
    return contents_.erase(request->name()) == 1 ? grpc::Status::OK : NotFound(request->name());
  }

 private:
  static grpc::Status NotFound(const std::string& name) {
    return ToGrpcStatus(
        Error(absl::StatusCode::kNotFound, "ARTIFACT_NOT_FOUND", absl::StrCat("there is no artifact ", name)));
  }
  v1::Artifact ArtifactOf(const std::string& name) ABSL_EXCLUSIVE_LOCKS_REQUIRED(mutex_) {
    v1::Artifact artifact;
    artifact.set_name(name);
    artifact.set_sha256(Sha256Hex(contents_.at(name)));
    artifact.set_size_bytes(static_cast<int64_t>(contents_.at(name).size()));
    artifact.set_file_name(file_names_[name]);
    return artifact;
  }

  absl::Mutex mutex_;
  Script script_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> contents_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> partials_ ABSL_GUARDED_BY(mutex_);
  std::map<std::string, std::string> file_names_ ABSL_GUARDED_BY(mutex_);
  std::set<std::string> of_every_job_ ABSL_GUARDED_BY(mutex_);
};

}  // namespace ampd::client
