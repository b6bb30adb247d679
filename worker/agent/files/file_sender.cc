#include "worker/agent/files/file_sender.h"

#include <fcntl.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <memory>
#include <optional>
#include <utility>

#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/io/open_below.h"

namespace ampd::agent {
namespace {

constexpr int kNumThreads = 8;  // Most threads wait for clients, which receive the files slowly.
constexpr size_t kMaxWaiting = 64;
constexpr int64_t kPieceBytes = 256 << 10;

struct OpenFile {
  UniqueFd fd;
  int64_t num_bytes = 0;
  int64_t offset = 0;
};

absl::StatusOr<OpenFile> Open(const std::string& root, const v1::FileRequest& request) {
  const std::string& name = request.file_name();
  if (!StaysBelow(request.path()) || !StaysBelow(name) || name.find('/') != name.npos) {
    return absl::InvalidArgumentError("it is not the name of a file of a checkpoint");
  }
  const UniqueFd base(open(root.c_str(), O_PATH | O_DIRECTORY | O_CLOEXEC));
  if (!base.ok()) {
    return ErrnoError(errno, "open the checkpoint root");
  }
  const UniqueFd folder = OpenFolderBelow(base.get(), request.path());
  if (!folder.ok()) {
    return ErrnoError(errno, "open the checkpoint's folder");
  }
  OpenFile file;
  file.fd = UniqueFd(openat(folder.get(), name.c_str(), O_RDONLY | O_NOFOLLOW | O_NONBLOCK | O_CLOEXEC));
  struct stat found = {};
  if (!file.fd.ok() || fstat(file.fd.get(), &found) != 0) {
    return ErrnoError(errno, "open the file");
  }
  if (!S_ISREG(found.st_mode)) {
    return absl::InvalidArgumentError("it is not a regular file");
  }
  file.num_bytes = found.st_size;
  file.offset = request.offset_bytes();
  if (file.offset < 0 || file.offset > file.num_bytes) {
    return absl::InvalidArgumentError(
        absl::StrCat("it has ", file.num_bytes, " bytes, so it cannot be read from byte ", file.offset, " on"));
  }
  return file;
}

absl::StatusOr<std::string> ReadPiece(const OpenFile& file) {
  std::string piece(static_cast<size_t>(std::min(kPieceBytes, file.num_bytes - file.offset)), '\0');
  ssize_t count = 0;
  do {
    count = pread(file.fd.get(), piece.data(), piece.size(), file.offset);
  } while (count < 0 && errno == EINTR);
  if (count < 0) {
    return ErrnoError(errno, "read the file");
  }
  if (count == 0 && !piece.empty()) {
    return absl::DataLossError("the file has become shorter");
  }
  piece.resize(static_cast<size_t>(count));
  return piece;
}

}  // namespace

FileUplink::NextPiece PiecesOf(const std::string& root, const v1::FileRequest& request) {
  auto file = std::make_shared<absl::StatusOr<OpenFile>>(Open(root, request));
  return [file, transfer = request.transfer(), is_first = true]() mutable {
    v1::FilePiece message;
    if (std::exchange(is_first, false)) {
      message.set_transfer(transfer);
    }
    absl::StatusOr<std::string> piece = file->ok() ? ReadPiece(**file) : file->status();
    if (!piece.ok()) {
      message.set_failure(std::string(piece.status().message()));
      return message;
    }
    (*file)->offset += static_cast<int64_t>(piece->size());
    message.set_last((*file)->offset == (*file)->num_bytes);
    message.set_content(*std::move(piece));
    return message;
  };
}

FileSender::FileSender(Options options) : options_(std::move(options)), waiting_(kMaxWaiting) {}

void FileSender::Send(const std::vector<v1::FileRequest>& requests) {
  {
    absl::MutexLock lock(&mutex_);
    std::set<std::string> accepted;
    for (const v1::FileRequest& request : requests) {
      if (accepted_.contains(request.transfer()) || waiting_.TryPush(request)) {
        accepted.insert(request.transfer());
      }
    }
    accepted_ = std::move(accepted);
  }
  while (!requests.empty() && threads_.size() < kNumThreads) {
    threads_.emplace_back([this] { Run(); });
  }
}

void FileSender::Run() {
  while (std::optional<v1::FileRequest> request = waiting_.Pop()) {
    const absl::Status sent = options_.uplink->Send(PiecesOf(options_.root, *request));
    if (!sent.ok() && !absl::IsCancelled(sent)) {
      absl::MutexLock lock(&mutex_);
      accepted_.erase(request->transfer());  // So Send accepts it again if the next directive repeats it.
      options_.log(
          absl::StrCat("can't send ", request->path(), "/", request->file_name(), " to the server: ", sent.message()));
    }
  }
}

void FileSender::Stop() {
  waiting_.Close();
  if (!threads_.empty()) {
    options_.uplink->Cancel();
  }
  for (std::thread& thread : threads_) {
    thread.join();
  }
  threads_.clear();
}

}  // namespace ampd::agent
