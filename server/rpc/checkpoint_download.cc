// Implements the call of JobService that sends files of checkpoints.
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"
#include "server/rpc/calls/stream.h"
#include "server/rpc/file_download.h"
#include "server/rpc/job_service.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxFileNameBytes = 255;
constexpr std::string_view kDownloadFile = "ampd.v1.JobService/DownloadCheckpointFile";

absl::Status CheckFile(const v1::DownloadCheckpointFileRequest& request) {
  std::vector<FieldViolation> violations;
  const std::string& name = request.file_name();
  if (name.empty() || name.size() > kMaxFileNameBytes || name == "." || name == ".." || absl::StrContains(name, '/') ||
      absl::StrContains(name, '\0')) {
    violations.push_back(
        {"file_name", "must be the name of a file in the checkpoint's folder, such as \"state.json\""});
  }
  if (request.offset_bytes() < 0) {
    violations.push_back({"offset_bytes", absl::StrCat("is ", request.offset_bytes(), "; must be at least 0")});
  }
  return violations.empty() ? absl::OkStatus() : InvalidFields(violations);
}

}  // namespace

absl::StatusOr<std::shared_ptr<FileRelay>> JobService::OpenRelay(const v1::DownloadCheckpointFileRequest& request,
                                                                 std::function<void()> on_piece) {
  AMPD_ASSIGN_OR_RETURN(const JobQueries::CheckpointPlace place,
                        options_.queries->FindCheckpoint(request.id(), request.attempt(), request.step()));
  if (place.worker.empty()) {
    return Error(absl::StatusCode::kUnavailable, "WORKER_UNREACHABLE",
                 absl::StrCat("no worker that has the files of the checkpoint is connected; worker ",
                              place.checkpoint.worker(), " saved it"));
  }
  v1::FileRequest file;
  file.set_path(place.checkpoint.path());
  file.set_file_name(request.file_name());
  file.set_offset_bytes(request.offset_bytes());
  AMPD_ASSIGN_OR_RETURN(std::shared_ptr<FileRelay> relay,
                        options_.relays->Open(place.worker, std::move(file), std::move(on_piece)));
  options_.streams->DirectiveDue(place.worker);
  return relay;
}

grpc::ServerWriteReactor<v1::DownloadCheckpointFileResponse>* JobService::DownloadCheckpointFile(
    grpc::CallbackServerContext* context, const v1::DownloadCheckpointFileRequest* request) {
  using Reactor = StreamReactor<v1::DownloadCheckpointFileResponse, FileDownload>;
  auto reactor = std::make_shared<Reactor>(*options_.environment, context, kDownloadFile);
  absl::Status allowed = reactor->Admit();
  allowed.Update(CheckRequest(*request));
  allowed.Update(CheckFile(*request));
  if (!allowed.ok()) {
    Reactor::Refuse(reactor, allowed);
    return reactor.get();
  }
  const auto open = [this, context, request = *request,
                     on_piece = Wake(reactor)]() -> absl::StatusOr<std::shared_ptr<FileRelay>> {
    AMPD_RETURN_IF_ERROR(options_.environment->guard->CheckJob(*context, kDownloadFile, request.id()));
    return OpenRelay(request, on_piece);
  };
  const auto is_closing = [streams = options_.environment->open_streams] { return streams->closing(); };
  Reactor::Run(reactor, std::make_unique<FileDownload>(open, is_closing), options_.ticker);
  return reactor.get();
}

}  // namespace ampd::server
