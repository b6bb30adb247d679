#pragma once

#include <gtest/gtest.h>
#include <sys/wait.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "base/io/file.h"
#include "tests/client/fake_server.h"

namespace ampd::client {

// A job file that the fake server accepts.
inline constexpr char kGoodJob[] = "name: x\ndata:\n  batch_size: 4\n";
// An environment with the address of a server that does not exist.
inline constexpr char kNoServer[] = "AMPD_ADDRESS=127.0.0.1:1";

struct Result {
  int exit_code = -1;
  std::string out;
  std::string err;
};

// A test that runs the real ampctl against a fake server, in a folder of its own.
class Ampctl : public ::testing::Test {
 protected:
  Ampctl() {
    std::string name = ::testing::TempDir() + "ampctl-XXXXXX";
    folder_ = mkdtemp(name.data());
  }
  ~Ampctl() override { std::filesystem::remove_all(folder_); }

  Result Run(const std::string& arguments, const std::string& environment = "") {
    const std::string address = environment.empty() ? "AMPD_ADDRESS=" + fake_.address() : environment;
    const std::string command = "cd " + folder_ +
                                " && env -u NO_COLOR -u AMPD_ADDRESS -u AMPD_TOKEN XDG_CONFIG_HOME=" + folder_ +
                                "/config LC_ALL=C " + address + " " AMPD_BIN_DIR "/ampctl " + arguments + " >out 2>err";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), *ReadFile(folder_ + "/out", 1 << 24), *ReadFile(folder_ + "/err", 1 << 24)};
  }
  // Runs ampctl with a terminal as its standard input, output and error. Returns what the terminal shows; its lines end
  // in "\r\n". The terminal has `columns` columns, or an unknown number of columns if `columns` is 0.
  Result RunOnTerminal(const std::string& arguments, int columns = 0) {
    const std::string resize = columns > 0 ? "stty rows 24 cols " + std::to_string(columns) + "; " : "";
    const std::string command = "cd " + folder_ +
                                " && env -u NO_COLOR -u AMPD_TOKEN TERM=xterm XDG_CONFIG_HOME=" + folder_ +
                                "/config LC_ALL=C.UTF-8 AMPD_ADDRESS=" + fake_.address() + " script -qec '" + resize +
                                AMPD_BIN_DIR "/ampctl " + arguments + "' /dev/null >out 2>err </dev/null";
    const int status = std::system(command.c_str());
    return {WEXITSTATUS(status), *ReadFile(folder_ + "/out", 1 << 24), *ReadFile(folder_ + "/err", 1 << 24)};
  }
  void Write(const std::string& name, const std::string& text) {
    ASSERT_TRUE(WriteFileAtomically(folder_ + "/" + name, text).ok());
  }

  FakeServer fake_;
  std::string folder_;
};

}  // namespace ampd::client
