#include "client/terminal/standard_streams.h"

#include <poll.h>
#include <unistd.h>

#include <cerrno>
#include <cstdio>
#include <cstring>
#include <string>

namespace ampd::client {
namespace {

void Write(std::FILE* stream, std::string_view bytes) { std::fwrite(bytes.data(), 1, bytes.size(), stream); }

bool IsReaderGone() {
  pollfd reader = {STDOUT_FILENO, POLLOUT, 0};
  return poll(&reader, 1, 0) == 1 && (reader.revents & POLLERR) != 0;
}

}  // namespace

bool OutputIsTerminal() { return isatty(STDOUT_FILENO) == 1; }

void WriteText(std::string_view text) { Write(stdout, PrintableLines(text)); }

void WriteColoured(std::string_view text) { Write(stdout, ColouredLines(text)); }

void WriteMessage(std::string_view text) {
  FlushOutput();  // keeps stdout and stderr in order when both go to one place
  Write(stderr, PrintableLines(text));
}

void WriteBytes(std::string_view bytes) { Write(stdout, bytes); }

void FlushOutput() { std::fflush(stdout); }

bool OutputHasFailed() { return std::ferror(stdout) != 0 || IsReaderGone(); }

std::string CloseOutput() {
  const bool is_flushed = std::fflush(stdout) == 0;
  const std::string why = is_flushed ? "a write failed" : std::strerror(errno);
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
