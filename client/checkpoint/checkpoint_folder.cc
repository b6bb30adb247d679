#include "client/checkpoint/checkpoint_folder.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <filesystem>
#include <map>
#include <set>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/formats/sha256.h"
#include "base/io/file.h"
#include "base/io/pending_file.h"
#include "base/status_macros.h"
#include "graph/exported/exported_program.h"

namespace ampd::client {
namespace {

constexpr char kModelFile[] = "model.safetensors";
constexpr char kOptimizerFile[] = "optimizer.safetensors";
constexpr char kGraphFile[] = "graph.json";
constexpr int64_t kMaxGraphBytes = 4 * graph::kMaxExportedJsonBytes;
constexpr char kAverage[] = ".average";  // worker/amp/optimizer.cc appends it to the name of an averaged parameter

std::string PathOf(const CheckpointFolder& folder, const std::string& file) {
  return absl::StrCat(folder.path, "/", file);
}

// Prefixes an error of a local file with `path`. Codes other than DATA_LOSS become FAILED_PRECONDITION, because some
// status codes would make ampctl exit with an exit code that stands for an error of the server.
absl::Status At(const std::string& path, const absl::Status& status) {
  const std::string message = absl::StrCat(path, ": ", status.message());
  return absl::IsDataLoss(status) ? absl::DataLossError(message) : absl::FailedPreconditionError(message);
}

// Reads `size` bytes from `offset` on. Returns fewer only at the end of the file.
absl::StatusOr<std::string> ReadAt(int fd, uint64_t offset, size_t size) {
  std::string bytes(size, '\0');
  size_t done = 0;
  while (done < size) {
    const ssize_t count = pread(fd, bytes.data() + done, size - done, static_cast<off_t>(offset + done));
    if (count < 0 && errno == EINTR) {
      continue;
    }
    if (count < 0) {
      return ErrnoError(errno, "cannot be read");
    }
    if (count == 0) {
      break;
    }
    done += static_cast<size_t>(count);
  }
  bytes.resize(done);
  return bytes;
}

struct OpenTensors {
  UniqueFd fd;
  SafetensorsHeader header;
};

absl::StatusOr<OpenTensors> Open(const std::string& path) {
  OpenTensors file;
  file.fd = UniqueFd(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.fd.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  const off_t size = lseek(file.fd.get(), 0, SEEK_END);
  AMPD_ASSIGN_OR_RETURN(const std::string prefix, ReadAt(file.fd.get(), 0, 8 + kMaxSafetensorsHeaderBytes));
  AMPD_ASSIGN_OR_RETURN(file.header, ParseSafetensorsHeader(prefix, static_cast<uint64_t>(size)));
  return file;
}

// A tensor of the output file, and the place of its bytes in the checkpoint.
struct Piece {
  TensorEntry entry;
  int fd = -1;
  uint64_t begin = 0;  // offset of the tensor's bytes in the file `fd`
};

std::vector<Piece> PiecesOf(const OpenTensors& file) {
  std::vector<Piece> pieces;
  for (const TensorEntry& entry : file.header.tensors) {
    pieces.push_back({entry, file.fd.get(), file.header.data_begin + entry.begin});
  }
  return pieces;
}

absl::Status UseAverages(const OpenTensors& optimizer, std::vector<Piece>& pieces) {
  std::map<std::string, Piece> averages;
  for (const Piece& piece : PiecesOf(optimizer)) {
    averages[piece.entry.name] = piece;
  }
  int num_averages = 0;
  for (Piece& piece : pieces) {
    const auto found = averages.find(piece.entry.name + kAverage);
    if (found != averages.end() && found->second.entry.shape == piece.entry.shape &&
        found->second.entry.dtype == piece.entry.dtype) {
      piece.fd = found->second.fd;
      piece.begin = found->second.begin;
      ++num_averages;
    }
  }
  return num_averages > 0 ? absl::OkStatus()
                          : absl::FailedPreconditionError(
                                "the checkpoint has no averages: optimizer.ema_decay was not set in its job");
}

// Changes `pieces` to the entries of the model's Python state_dict: removes the tensors that Python does not save, and
// adds the other names of tied parameters. Does nothing if the checkpoint's model is built-in and not exported from
// Python.
absl::Status NameAsPythonDoes(const CheckpointFolder& folder, std::vector<Piece>& pieces) {
  if (!folder.manifest.files.contains(kGraphFile)) {
    return absl::OkStatus();
  }
  const std::string path = PathOf(folder, kGraphFile);
  if (const std::string damage = FindDamage(folder, kGraphFile); !damage.empty()) {
    return absl::DataLossError(absl::StrCat(path, ": ", damage));
  }
  auto text = ReadFile(path, kMaxGraphBytes);
  if (!text.ok()) {
    return At(path, text.status());
  }
  const auto model = graph::ParseExportedModel(*std::move(text));
  if (!model.ok()) {
    return absl::DataLossError(absl::StrCat(path, ": ", model.status().message()));
  }
  std::map<std::string, Piece> by_name;
  std::set<std::string> of_graph;
  for (const Piece& piece : pieces) {
    by_name[piece.entry.name] = piece;
    of_graph.insert(piece.entry.name);
  }
  const graph::SavedNames names = graph::SavedNamesOf(model->state, of_graph);
  std::erase_if(pieces, [&](const Piece& piece) { return names.left_out.contains(piece.entry.name); });
  for (const auto& [name, kept] : names.tied) {
    pieces.push_back(by_name.at(kept));
    pieces.back().entry.name = name;
  }
  return absl::OkStatus();
}

bool IsCancelled(const std::function<bool()>& is_cancelled) { return is_cancelled != nullptr && is_cancelled(); }

absl::Status Interrupted() { return absl::CancelledError("interrupted"); }

absl::Status Copy(const Piece& piece, const std::function<bool()>& is_cancelled, PendingFile* to) {
  constexpr uint64_t kChunk = 1 << 20;
  const uint64_t size = piece.entry.end - piece.entry.begin;
  for (uint64_t done = 0; done < size;) {
    if (IsCancelled(is_cancelled)) {
      return Interrupted();
    }
    AMPD_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(piece.fd, piece.begin + done, std::min(kChunk, size - done)));
    if (bytes.empty()) {
      return absl::DataLossError("the checkpoint was truncated while it was read");
    }
    AMPD_RETURN_IF_ERROR(to->Append(bytes));
    done += bytes.size();
  }
  return absl::OkStatus();
}

absl::Status WritePieces(const std::string& header, const std::vector<Piece>& pieces, const ExportOptions& options) {
  AMPD_ASSIGN_OR_RETURN(PendingFile file, PendingFile::Create(options.destination, options.replace));
  AMPD_RETURN_IF_ERROR(file.Append(header));
  for (const Piece& piece : pieces) {
    AMPD_RETURN_IF_ERROR(Copy(piece, options.is_cancelled, &file));
  }
  return file.Commit();
}

// Returns the SHA-256 of a file, or CANCELLED.
absl::StatusOr<std::string> DigestOf(const std::string& path, const std::function<bool()>& is_cancelled) {
  constexpr size_t kChunk = 1 << 20;
  const UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
  if (!file.ok()) {
    return ErrnoError(errno, "cannot be opened");
  }
  Sha256 sha256;
  for (uint64_t offset = 0;;) {
    if (IsCancelled(is_cancelled)) {
      return Interrupted();
    }
    AMPD_ASSIGN_OR_RETURN(const std::string bytes, ReadAt(file.get(), offset, kChunk));
    if (bytes.empty()) {
      return sha256.HexDigest();
    }
    sha256.Update(bytes);
    offset += bytes.size();
  }
}

// Verifies a file before opening it, so that nothing unverified is read.
absl::StatusOr<OpenTensors> OpenVerified(const CheckpointFolder& folder, const std::string& file,
                                         const std::function<bool()>& is_cancelled) {
  const std::string damage = FindDamage(folder, file, is_cancelled);
  if (IsCancelled(is_cancelled)) {
    return Interrupted();
  }
  if (!damage.empty()) {
    return absl::DataLossError(absl::StrCat(PathOf(folder, file), ": ", damage));
  }
  return Open(PathOf(folder, file));
}

}  // namespace

int64_t CheckpointFolder::size_bytes() const {
  int64_t size = 0;
  for (const auto& [name, file] : manifest.files) {
    size += file.size_bytes;
  }
  return size;
}

absl::StatusOr<CheckpointFolder> OpenCheckpointFolder(const std::string& path) {
  CheckpointFolder folder;
  folder.path = path;
  const std::string manifest = PathOf(folder, kManifestFile);
  const auto text = ReadFile(manifest, kMaxManifestBytes);
  if (!text.ok()) {
    const std::string message = absl::StrCat(
        manifest, ": ", text.status().message(),
        "; name the folder that ampctl checkpoint download has made, or one in a worker's checkpoint root: "
        "JOB/ATTEMPT/step-STEP");
    return absl::IsNotFound(text.status()) ? absl::NotFoundError(message) : absl::InvalidArgumentError(message);
  }
  auto parsed = ParseManifest(*text);
  if (!parsed.ok()) {
    return absl::DataLossError(absl::StrCat(manifest, " ", parsed.status().message()));
  }
  folder.manifest = *std::move(parsed);
  folder.manifest_sha256 = Sha256Hex(*text);
  return folder;
}

std::string FindDamage(const CheckpointFolder& folder, const std::string& file,
                       const std::function<bool()>& is_cancelled) {
  const auto named = folder.manifest.files.find(file);
  if (named == folder.manifest.files.end()) {
    return "the manifest does not name it";
  }
  const std::string path = PathOf(folder, file);
  std::error_code error;
  const auto size = static_cast<int64_t>(std::filesystem::file_size(path, error));
  if (error) {
    return error.message();
  }
  if (size != named->second.size_bytes) {
    return absl::StrCat(size, " bytes; the manifest has ", named->second.size_bytes);
  }
  const auto sha256 = DigestOf(path, is_cancelled);
  if (!sha256.ok()) {
    return std::string(sha256.status().message());
  }
  if (*sha256 != named->second.sha256) {
    return absl::StrCat("SHA-256 ", *sha256, "; the manifest has ", named->second.sha256);
  }
  if (!absl::EndsWith(file, ".safetensors")) {
    return "";
  }
  const auto tensors = Open(path);
  return tensors.ok() ? "" : std::string(tensors.status().message());
}

absl::StatusOr<SafetensorsHeader> ReadTensorTable(const CheckpointFolder& folder, const std::string& file) {
  auto tensors = Open(PathOf(folder, file));
  if (!tensors.ok()) {
    return At(PathOf(folder, file), tensors.status());
  }
  return std::move(tensors->header);
}

bool IsExported(const std::string& file, bool averages) {
  return file == kModelFile || file == kGraphFile || (averages && file == kOptimizerFile);
}

absl::StatusOr<ExportedModel> ExportModel(const CheckpointFolder& folder, const ExportOptions& options) {
  std::error_code error;
  const std::filesystem::file_status there = std::filesystem::status(options.destination, error);
  if (std::filesystem::exists(there) && !std::filesystem::is_regular_file(there)) {
    return absl::FailedPreconditionError(absl::StrCat(options.destination, " is not a regular file"));
  }
  const auto exists = absl::AlreadyExistsError(
      absl::StrCat(options.destination, " already exists; give another name, or --force to replace it"));
  if (!options.replace && std::filesystem::exists(there)) {
    return exists;
  }
  AMPD_ASSIGN_OR_RETURN(const OpenTensors model, OpenVerified(folder, kModelFile, options.is_cancelled));
  std::vector<Piece> pieces = PiecesOf(model);
  OpenTensors optimizer;
  if (options.averages) {
    AMPD_ASSIGN_OR_RETURN(optimizer, OpenVerified(folder, kOptimizerFile, options.is_cancelled));
    AMPD_RETURN_IF_ERROR(UseAverages(optimizer, pieces));
  }
  AMPD_RETURN_IF_ERROR(NameAsPythonDoes(folder, pieces));
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"}};
  for (const Piece& piece : pieces) {
    header.tensors.push_back(piece.entry);
  }
  const auto encoded = EncodeSafetensorsHeader(header);
  if (!encoded.ok()) {
    return absl::DataLossError(encoded.status().message());
  }
  if (const absl::Status written = WritePieces(*encoded, pieces, options); !written.ok()) {
    return absl::IsAlreadyExists(written) ? exists
           : absl::IsCancelled(written)   ? written
                                          : At(options.destination, written);
  }
  uint64_t data_bytes = 0;
  for (const Piece& piece : pieces) {
    data_bytes += piece.entry.end - piece.entry.begin;
  }
  return ExportedModel{static_cast<int64_t>(pieces.size()), static_cast<int64_t>(encoded->size() + data_bytes)};
}

}  // namespace ampd::client
