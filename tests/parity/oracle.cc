#include "tests/parity/oracle.h"

#include <ATen/ops/empty.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <string_view>

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

absl::Status RunPython(const std::vector<std::string>& command) {
  std::vector<char*> argv;
  for (const std::string& word : command) {
    argv.push_back(const_cast<char*>(word.c_str()));
  }
  argv.push_back(nullptr);
  pid_t pid = 0;
  if (posix_spawn(&pid, kPython, nullptr, nullptr, argv.data(), environ) != 0) {
    return absl::NotFoundError(absl::StrCat("cannot start ", kPython, "; run scripts/setup"));
  }
  int status = 0;
  if (waitpid(pid, &status, 0) != pid || !WIFEXITED(status) || WEXITSTATUS(status) != 0) {
    return absl::InternalError(absl::StrCat(command[1], " failed with status ", status));
  }
  return absl::OkStatus();
}

}  // namespace

absl::StatusOr<std::map<std::string, at::Tensor>> RunOracle(const std::string& script,
                                                            const std::vector<std::string>& arguments) {
  if (!std::filesystem::exists(kPython)) {
    return absl::NotFoundError(absl::StrCat(kPython, " is missing; run scripts/setup"));
  }
  std::string folder = (std::filesystem::temp_directory_path() / "ampd-oracle-XXXXXX").string();
  if (mkdtemp(folder.data()) == nullptr) {
    return absl::InternalError(absl::StrCat("cannot make ", folder));
  }
  const std::string path = folder + "/tensors";
  std::vector<std::string> command = {kPython, absl::StrCat(AMPD_SOURCE_DIR, "/tests/parity/", script)};
  command.insert(command.end(), arguments.begin(), arguments.end());
  command.push_back(path);
  const absl::Status status = RunPython(command);
  auto tensors = status.ok() ? ReadTensors(path) : status;
  std::filesystem::remove_all(folder);
  return tensors;
}

}  // namespace ampd::parity
