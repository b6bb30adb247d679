#include "client/terminal/secret_prompt.h"

#include <termios.h>
#include <unistd.h>

#include <iostream>

#include "absl/strings/ascii.h"
#include "client/terminal/confirm.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr size_t kMaxBytes = size_t{16} << 10;

// While this object exists, the terminal does not show what the user types.
class HiddenInput {
 public:
  HiddenInput() : is_hidden_(tcgetattr(STDIN_FILENO, &before_) == 0) {
    if (is_hidden_) {
      termios hidden = before_;
      hidden.c_lflag &= ~static_cast<tcflag_t>(ECHO);
      tcsetattr(STDIN_FILENO, TCSAFLUSH, &hidden);
    }
  }
  ~HiddenInput() {
    if (is_hidden_) {
      tcsetattr(STDIN_FILENO, TCSAFLUSH, &before_);
    }
  }
  HiddenInput(const HiddenInput&) = delete;
  HiddenInput& operator=(const HiddenInput&) = delete;

 private:
  termios before_ = {};
  const bool is_hidden_;
};

}  // namespace

absl::StatusOr<std::string> ReadSecret(const std::string& question) {
  std::string line;
  if (CanAsk()) {
    WriteMessage(question);
    const HiddenInput hidden;
    std::getline(std::cin, line);
    WriteMessage("\n");
  } else {
    std::getline(std::cin, line);
  }
  line = std::string(absl::StripAsciiWhitespace(line));
  if (line.empty() || line.size() > kMaxBytes) {
    return absl::InvalidArgumentError(line.empty() ? "no token was given: type it, or send it to standard input"
                                                   : "the token is longer than any that a server gives");
  }
  return line;
}

}  // namespace ampd::client
