#include "server/rpc/file_relay.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "base/error.h"

namespace ampd::server {
namespace {

constexpr int kTransferLength = 26;  // 130 random bits, so that no worker can guess another's transfer.

}  // namespace

FileRelay::FileRelay(std::string worker, v1::FileRequest request, std::function<void()> on_piece, const Clock* clock)
    : worker_(std::move(worker)),
      request_(std::move(request)),
      on_piece_(std::move(on_piece)),
      clock_(clock),
      last_progress_(clock->SinceBoot()) {}

FileRelay::Taken FileRelay::Take() {
  Taken taken;
  std::function<void()> on_taken;
  {
    absl::MutexLock lock(&mutex_);
    if (piece_.has_value()) {
      taken.kind = Taken::kPiece;
      taken.piece = *std::move(piece_);
      piece_.reset();
      last_progress_ = clock_->SinceBoot();
      on_taken = end_.has_value() ? nullptr : on_taken_;
    } else if (end_.has_value()) {
      taken.kind = Taken::kEnd;
      taken.status = *end_;
    } else if (clock_->SinceBoot() - last_progress_ > kPieceLimit) {
      taken.kind = Taken::kEnd;
      taken.status = Error(absl::StatusCode::kUnavailable, "WORKER_UNREACHABLE",
                           has_begun_ ? absl::StrCat("worker ", worker_, " has sent nothing more of the file for ",
                                                     absl::FormatDuration(kPieceLimit))
                                      : absl::StrCat("worker ", worker_, " has not begun to send the file within ",
                                                     absl::FormatDuration(kPieceLimit),
                                                     "; it sends many others, or its version cannot send files"));
    }
  }
  if (on_taken != nullptr) {
    on_taken();
  }
  return taken;
}

void FileRelay::Leave() {
  std::function<void()> on_left;
  {
    absl::MutexLock lock(&mutex_);
    has_left_ = true;
    on_left = std::exchange(on_left_, nullptr);
    if (end_.has_value() && !piece_.has_value()) {
      on_left = nullptr;  // The client has the whole file, so the worker's call did not fail.
    }
    on_taken_ = nullptr;
  }
  if (on_left != nullptr) {
    on_left();
  }
}

bool FileRelay::Begin(std::function<void()> on_taken, std::function<void()> on_left) {
  absl::MutexLock lock(&mutex_);
  if (has_left_ || std::exchange(has_begun_, true)) {
    return false;
  }
  on_taken_ = std::move(on_taken);
  on_left_ = std::move(on_left);
  last_progress_ = clock_->SinceBoot();
  return true;
}

bool FileRelay::Put(std::string piece, bool is_last) {
  {
    absl::MutexLock lock(&mutex_);
    if (has_left_) {
      return false;
    }
    piece_ = std::move(piece);
    end_ = is_last ? std::optional(absl::OkStatus()) : std::nullopt;
  }
  on_piece_();
  return true;
}

void FileRelay::Fail(const absl::Status& why) {
  {
    absl::MutexLock lock(&mutex_);
    if (end_.has_value()) {
      return;
    }
    end_ = why;
  }
  on_piece_();
}

bool FileRelay::IsWaiting() const {
  absl::MutexLock lock(&mutex_);
  return !has_begun_ && !has_left_;
}

absl::StatusOr<std::shared_ptr<FileRelay>> FileRelays::Open(const std::string& worker, v1::FileRequest request,
                                                            std::function<void()> on_piece) {
  request.set_transfer(RandomId(SystemRandom(), kTransferLength));
  const auto relay = std::make_shared<FileRelay>(worker, request, std::move(on_piece), clock_);
  absl::MutexLock lock(&mutex_);
  std::erase_if(relays_, [](const auto& entry) { return entry.second.expired(); });
  if (relays_.size() >= kMaxRelays) {
    return WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY",
                                "too many checkpoints are being downloaded; call again later"),
                          absl::Seconds(5));
  }
  relays_[request.transfer()] = relay;
  return relay;
}

void FileRelays::AddTo(const std::string& worker, v1::WorkerDirective* directive) {
  absl::MutexLock lock(&mutex_);
  for (const auto& [transfer, weak] : relays_) {
    const std::shared_ptr<FileRelay> relay = weak.lock();
    if (relay != nullptr && relay->worker() == worker && relay->IsWaiting()) {
      *directive->add_send_files() = relay->request();
    }
  }
}

std::shared_ptr<FileRelay> FileRelays::Find(const std::string& transfer) {
  absl::MutexLock lock(&mutex_);
  const auto found = relays_.find(transfer);
  return found == relays_.end() ? nullptr : found->second.lock();
}

}  // namespace ampd::server
