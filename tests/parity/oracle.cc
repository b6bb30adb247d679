#include "tests/parity/oracle.h"

#include <ATen/ops/empty.h>
#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <memory>
#include <string_view>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/file.h"
#include "base/status_macros.h"

namespace ampd::parity {
namespace {

constexpr char kPython[] = AMPD_SOURCE_DIR "/.deps/venv/bin/python";
constexpr size_t kMaxFileBytes = size_t{1} << 30;

// Takes a number or raw bytes from the front.
class Reader {
 public:
  explicit Reader(std::string_view bytes) : bytes_(bytes) {}

  bool done() const { return bytes_.empty(); }

  absl::StatusOr<std::string_view> Bytes(size_t count) {
    if (bytes_.size() < count) {
      return absl::DataLossError("the oracle's file ends within a tensor");
    }
    const std::string_view taken = bytes_.substr(0, count);
    bytes_.remove_prefix(count);
    return taken;
  }

  template <typename Number>
  absl::StatusOr<Number> Take() {
    AMPD_ASSIGN_OR_RETURN(const std::string_view bytes, Bytes(sizeof(Number)));
    Number number;
    std::memcpy(&number, bytes.data(), sizeof(Number));
    return number;
  }

 private:
  std::string_view bytes_;
};

absl::StatusOr<at::Tensor> ReadTensor(Reader& reader) {
  AMPD_ASSIGN_OR_RETURN(const auto dtype, reader.Take<uint8_t>());
  AMPD_ASSIGN_OR_RETURN(const auto rank, reader.Take<uint32_t>());
  std::vector<int64_t> sizes;
  for (uint32_t i = 0; i < rank; ++i) {
    AMPD_ASSIGN_OR_RETURN(sizes.emplace_back(), reader.Take<int64_t>());
  }
  at::Tensor tensor = at::empty(sizes, dtype == 0 ? at::kFloat : at::kLong);
  AMPD_ASSIGN_OR_RETURN(const std::string_view content, reader.Bytes(tensor.nbytes()));
  std::memcpy(tensor.mutable_data_ptr(), content.data(), content.size());
  return tensor;
}

absl::StatusOr<std::map<std::string, at::Tensor>> ReadTensors(const std::string& path) {
  AMPD_ASSIGN_OR_RETURN(const std::string content, ReadFile(path, kMaxFileBytes));
  Reader reader(content);
  std::map<std::string, at::Tensor> tensors;
  while (!reader.done()) {
    AMPD_ASSIGN_OR_RETURN(const auto length, reader.Take<uint32_t>());
    AMPD_ASSIGN_OR_RETURN(const std::string_view name, reader.Bytes(length));
    AMPD_ASSIGN_OR_RETURN(tensors[std::string(name)], ReadTensor(reader));
  }
  return tensors;
}

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

// oracle_server.py, which ends when its requests do: with the test program.
struct Server {
  FilePtr requests, answers;
};

absl::StatusOr<Server> StartServer() {
  int requests[2];
  int answers[2];
  if (pipe2(requests, O_CLOEXEC) != 0 || pipe2(answers, O_CLOEXEC) != 0) {
    return absl::ErrnoToStatus(errno, "cannot make a pipe");
  }
  Server server{FilePtr(fdopen(requests[1], "w")), FilePtr(fdopen(answers[0], "r"))};
  std::string python = kPython;
  std::string script = AMPD_SOURCE_DIR "/tests/parity/oracle_server.py";
  char* const argv[] = {python.data(), script.data(), nullptr};
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_adddup2(&actions, requests[0], STDIN_FILENO);
  posix_spawn_file_actions_adddup2(&actions, answers[1], STDOUT_FILENO);
  pid_t pid = 0;
  const int error = posix_spawn(&pid, kPython, &actions, nullptr, argv, environ);
  posix_spawn_file_actions_destroy(&actions);
  close(requests[0]);
  close(answers[1]);
  if (error != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", kPython, "; run scripts/setup"));
  }
  return server;
}

// Whether the oracle ended with 0. One at a time.
absl::Status Ask(const std::string& oracle, const std::vector<std::string>& arguments) {
  static auto* const server = new absl::StatusOr<Server>(StartServer());
  AMPD_RETURN_IF_ERROR(server->status());
  std::string request = oracle;
  for (const std::string& argument : arguments) {
    absl::StrAppend(&request, "\t", argument);
  }
  absl::StrAppend(&request, "\n");
  int status = -1;
  if (std::fputs(request.c_str(), (*server)->requests.get()) < 0 || std::fflush((*server)->requests.get()) != 0 ||
      std::fscanf((*server)->answers.get(), "%d", &status) != 1) {
    return absl::InternalError(absl::StrCat("the server of oracles ended when ", oracle, " was asked for"));
  }
  return status == 0 ? absl::OkStatus() : absl::InternalError(absl::StrCat(oracle, " failed with status ", status));
}

}  // namespace

absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& name,
                                                            const std::vector<std::string>& arguments) {
  if (!std::filesystem::exists(kPython)) {
    return absl::NotFoundError(absl::StrCat(kPython, " is missing; run scripts/setup"));
  }
  std::string folder = (std::filesystem::temp_directory_path() / "ampd-oracle-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make ", folder));
  }
  const std::string path = folder + "/tensors";
  std::vector<std::string> with_path = arguments;
  with_path.push_back(path);
  const absl::Status status = Ask(name, with_path);
  auto tensors = status.ok() ? ReadTensors(path) : status;
  std::filesystem::remove_all(folder);
  return tensors;
}

}  // namespace ampd::parity
