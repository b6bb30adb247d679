#include "tests/fuzz/target.h"

#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "base/error.h"

namespace ampd::fuzz {
namespace {

// The folder for input files. If possible it is in memory (/dev/shm), because each input costs one write and a few
// reads.
class Folder {
 public:
  Folder() {
    std::string pattern = access("/dev/shm", W_OK) == 0 ? "/dev/shm/ampd-fuzz-XXXXXX" : "/tmp/ampd-fuzz-XXXXXX";
    Require(mkdtemp(pattern.data()) != nullptr, "a folder can be made");
    path_ = pattern;
  }
  ~Folder() { std::filesystem::remove_all(path_); }
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

}  // namespace

Verdicts& Seen() {
  static Verdicts seen;
  return seen;
}

data::DataFile WriteInput(const uint8_t* data, size_t size) {
  static const Folder folder;
  std::ofstream(folder.path() + "/input", std::ios::binary)
      .write(reinterpret_cast<const char*>(data), static_cast<std::streamsize>(size));
  return {.root = folder.path(), .path = "input", .name = "input"};
}

void Require(bool holds, const char* what) {
  if (!holds) {
    std::fprintf(stderr, "broken: %s\n", what);
    std::abort();
  }
}

void Judge(const absl::Status& status) {
  if (status.ok()) {
    ++Seen().num_taken;
    return;
  }
  ++Seen().num_refused;
  RequireTypedError(status);
}

void RequireTypedError(const absl::Status& error) {
  Require(ReasonOf(error) == "DATA_ERROR", "an error is a DATA_ERROR");
  const std::string message(error.message());
  Require(message.rfind("input: ", 0) == 0, "a message names the file");
  for (const char c : message) {
    Require(static_cast<unsigned char>(c) >= 0x20 && c != 0x7f, "a message is one line of plain text");
  }
}

}  // namespace ampd::fuzz
