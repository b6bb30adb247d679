#include "client/terminal/standard_streams.h"

#include <fcntl.h>
#include <poll.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>
#include <vector>

#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "base/text.h"
#include "client/render/wrap.h"

namespace ampd::client {
namespace {

void Write(std::FILE* stream, std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stream); }

// If the text has more than `max_bytes`, returns its beginning, "...", and its last fifth. Never cuts a UTF-8
// character.
std::string WithoutMiddle(std::string_view text, size_t max_bytes) {
  if (text.size() <= max_bytes) {
    return std::string(text);
  }
  size_t end = text.size() - max_bytes / 5;
  while (end < text.size() && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80) {
    ++end;
  }
  return Shortened(text, max_bytes - max_bytes / 5) + std::string(text.substr(end));
}

// Shortens long words and lines of a message, because messages contain texts from arguments, files and servers.
std::string ShortenedMessage(std::string_view text) {
  constexpr size_t kMaxWord = 512;
  constexpr size_t kMaxLine = 3072;
  std::vector<std::string> lines;
  for (const absl::string_view line : absl::StrSplit(absl::string_view(text.data(), text.size()), '\n')) {
    std::vector<std::string> words;
    for (const absl::string_view word : absl::StrSplit(line, ' ')) {
      words.push_back(WithoutMiddle({word.data(), word.size()}, kMaxWord));
    }
    lines.push_back(WithoutMiddle(absl::StrJoin(words, " "), kMaxLine));
  }
  return absl::StrJoin(lines, "\n");
}

// Returns the number of columns of the terminal; 0 if it is not a terminal, or if its size is not known.
int WidthOf(int descriptor) {
  winsize size = {};
  return ioctl(descriptor, TIOCGWINSZ, &size) == 0 ? size.ws_col : 0;
}

bool IsReaderGone() {
  pollfd reader = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
}

}  // namespace

bool OutputIsTerminal() { return isatty(STDOUT_FILENO) == 1; }

int OutputWidth() { return WidthOf(STDOUT_FILENO); }

void WriteText(std::string_view text) { Write(stdout, PrintableLines(text)); }

void WriteProse(std::string_view text) { Write(stdout, WrapLines(PrintableLines(text), OutputWidth())); }

void WriteColoured(std::string_view text) { Write(stdout, WrapLines(ColouredLines(text), OutputWidth())); }

void WriteMessage(std::string_view text) {
  FlushOutput();  // keeps the order of stdout and stderr if both go to the same file
  Write(stderr, WrapLines(ShortenedMessage(PrintableLines(text)), WidthOf(STDERR_FILENO)));
}

void WriteBytes(std::string_view bytes) { Write(stdout, bytes); }

void FlushOutput() { std::fflush(stdout); }

bool OutputHasFailed() { return std::ferror(stdout) != 0 || IsReaderGone(); }

std::string CloseOutput() {
  const bool is_flushed = std::fflush(stdout) == 0;
  const int error = errno;
  const bool is_closed = fcntl(STDOUT_FILENO, F_GETFD) < 0 || error == EBADF || error == EINVAL;
  const std::string why = is_flushed ? "a write failed" : is_closed ? "it is closed" : std::strerror(error);
  return (is_flushed && std::ferror(stdout) == 0) || IsReaderGone() ? "" : why;
}

void LogPrinter::Print(std::string_view piece) {
  if (cleans_) {
    Write(stdout, cleaner_.Clean(piece));
  } else {
    WriteBytes(piece);
  }
  FlushOutput();
}

void LogPrinter::Finish() {
  Write(stdout, cleaner_.Finish());
  FlushOutput();
}

}  // namespace ampd::client
