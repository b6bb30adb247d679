#include "server/rpc/file_download.h"

#include <string>

#include "base/error.h"

namespace ampd::server {

FileDownload::~FileDownload() {
  if (relay_ != nullptr) {
    relay_->Leave();
  }
}

FileDownload::Step FileDownload::Next() {
  Step step;
  step.kind = Step::END;
  if (is_closing_()) {
    step.status = Error(absl::StatusCode::kUnavailable, "SHUTTING_DOWN", "the server is shutting down");
    return step;
  }
  if (relay_ == nullptr) {
    absl::StatusOr<std::shared_ptr<FileRelay>> relay = open_();
    if (!relay.ok()) {
      step.status = relay.status();
      return step;
    }
    relay_ = *std::move(relay);
  }
  FileRelay::Taken taken = relay_->Take();
  switch (taken.kind) {
    case FileRelay::Taken::kNothingYet:
      step.kind = Step::WAIT;
      break;
    case FileRelay::Taken::kPiece:
      step.kind = Step::MESSAGE;
      step.message.set_content(std::move(taken.piece));
      break;
    case FileRelay::Taken::kEnd:
      step.status = taken.status;
      break;
  }
  return step;
}

}  // namespace ampd::server
