#include "tests/parity/oracle.h"

#include <fcntl.h>
#include <spawn.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "worker/train/checkpoint/tensor_file.h"

namespace ampd::parity {
namespace {

constexpr char kPython[] = AMPD_SOURCE_DIR "/.deps/venv/bin/python";
constexpr size_t kMaxFileBytes = size_t{1} << 30;

struct CloseFile {
  void operator()(std::FILE* file) const { std::fclose(file); }
};
using FilePtr = std::unique_ptr<std::FILE, CloseFile>;

// The process of oracle_server.py. It ends when its standard input is closed, which happens when the test program ends.
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
  std::string script = AMPD_SOURCE_DIR "/tests/parity/oracles/oracle_server.py";
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

// Runs an oracle, and waits until it ends. Returns OK if it ended with status 0. Only one oracle runs at a time.
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
  const auto bytes = status.ok() ? ReadFile(path, kMaxFileBytes) : status;
  std::filesystem::remove_all(folder);
  AMPD_RETURN_IF_ERROR(bytes.status());
  return train::ReadTensors(*bytes);
}

}  // namespace ampd::parity
