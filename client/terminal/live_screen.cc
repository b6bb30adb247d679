#include "client/terminal/live_screen.h"

#include <csignal>
#include <cstdio>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"

namespace ampd::client {
namespace {

// The second screen, no cursor, no wrapping; and back.
constexpr char kTake[] = "\x1b[?1049h\x1b[?25l\x1b[?7l";
constexpr char kGiveBack[] = "\x1b[?7h\x1b[?25h\x1b[?1049l";

// From the first cell on. What was there is cleared before a row is written, as clearing behind a row that fills the
// screen would take its last cell. No newline behind the last row: it would scroll a full screen.
std::string Frame(const std::string& text) {
  const std::vector<std::string> rows = absl::StrSplit(text, '\n', absl::SkipEmpty());
  std::string frame = "\x1b[H";
  for (size_t i = 0; i < rows.size(); ++i) {
    const bool last = i + 1 == rows.size();
    absl::StrAppend(&frame, i == 0 ? "" : "\r\n", last ? "\x1b[J" : "\x1b[K", rows[i]);
  }
  return frame;
}

}  // namespace

void LiveScreen::WriteAll(const std::string& text) {
  std::fwrite(text.data(), 1, text.size(), stdout);
  std::fflush(stdout);
}

void LiveScreen::Draw(const std::string& text) {
  absl::MutexLock lock(&mutex_);
  WriteAll((taken_ ? "" : kTake) + Frame(text));
  taken_ = true;
  shown_ = text;
}

void LiveScreen::Leave() {
  absl::MutexLock lock(&mutex_);
  if (taken_) {
    WriteAll(kGiveBack);
  }
  taken_ = false;
}

void LiveScreen::Suspend() {
  absl::MutexLock lock(&mutex_);
  if (taken_) {
    WriteAll(kGiveBack);
  }
  // Every thread stops here; the lock keeps a drawing thread from writing over the shell before that. Not by kill():
  // its signal may go to another thread, and this one would take the screen again before the process stops.
  std::raise(SIGSTOP);
  if (taken_) {
    WriteAll(kTake + Frame(shown_));
  }
}

}  // namespace ampd::client
