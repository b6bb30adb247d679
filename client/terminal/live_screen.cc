#include "client/terminal/live_screen.h"

#include <csignal>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// kEnter switches to the alternate screen, hides the cursor and disables wrapping. kLeave undoes this.
constexpr char kEnter[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kLeave[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// Returns the escape sequences and characters that draw the text from the first cell of the screen on. Each row is
// cleared before it is written, because clearing after a row that fills the screen would erase its last cell. The last
// row does not end in a newline, which would scroll a full screen.
std::string Frame(const std::string& text) {
  const std::vector<std::string> rows = absl::StrSplit(ColouredLines(text), '\n', absl::SkipEmpty());
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", last ? "\x1b[J" : "\x1b[K", rows[i]);
  }
  return frame;
}

}  // namespace

void LiveScreen::WriteAll(const std::string& text) {
  WriteBytes(text);
  FlushOutput();
}

void LiveScreen::Draw(const std::string& text) {
  absl::MutexLock lock(&mutex_);
  WriteAll((is_entered_ ? "" : kEnter) + Frame(text));
  is_entered_ = true;
  shown_ = text;
}

void LiveScreen::Leave() {
  absl::MutexLock lock(&mutex_);
  if (is_entered_) {
    WriteAll(kLeave);
  }
  is_entered_ = false;
}

void LiveScreen::Suspend() {
  absl::MutexLock lock(&mutex_);
  if (is_entered_) {
    WriteAll(kLeave);
  }
  // Use SIGSTOP, which stops all threads of the process. This function still holds the lock, so no other thread draws
  // over the shell before the process stops. kill() cannot be used, because another thread may receive its signal; the
  // calling thread would then draw again before the process stops.
  std::raise(SIGSTOP);
  if (is_entered_) {
    WriteAll(kEnter + Frame(shown_));
  }
}

}  // namespace ampd::client
