#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "client/render/format.h"

// The only functions through which ampctl writes to its standard output and standard error. Names, messages and file
// contents from other people and programs must never control the user's terminal. So these functions escape everything
// in a text that could control it (PrintableLines), whether the stream is a terminal or a file. Escapes such as
// "\u202e" are valid in JSON and in quoted YAML too, so these formats stay valid. Only WriteBytes and LogPrinter write
// bytes as they are. tests/style/check_style.py checks that the rest of the client writes through these functions.
namespace ampd::client {

// Returns whether standard output is a terminal.
bool OutputIsTerminal();

// Returns the number of columns of the terminal at standard output; 0 if it is not a terminal, or if its size is not
// known.
int OutputWidth();

// Writes data of one or more lines, such as JSON, to standard output. Never breaks its lines.
void WriteText(std::string_view text);

// Writes a text for people to standard output. On a terminal, breaks its lines to fit (WrapLines).
void WriteProse(std::string_view text);

// Writes a text for people with the colours of Palette (ColouredLines) to standard output. On a terminal, breaks its
// lines to fit.
void WriteColoured(std::string_view text);

// Writes a text to standard error, after all text that was written to standard output before. Shortens long parts, such
// as an argument that an error repeats: removes the middle of a word of more than 512 bytes and of a line of more than
// 3 KiB. On a terminal, breaks the lines to fit (WrapLines).
void WriteMessage(std::string_view text);

// Formats a text for people and writes it to standard output.
template <typename... Args>
void WriteFormatted(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteProse(absl::StrFormat(format, args...));
}

// Writes bytes to standard output unchanged.
void WriteBytes(std::string_view bytes);

void FlushOutput();

// Returns whether output can no longer be written, because a write failed or the reader closed the pipe.
bool OutputHasFailed();

// Writes the buffered output at the end of the program. Returns why not all output could be written, for example
// because the disk is full. Returns "" if all was written, or if the reader closed the pipe early.
std::string CloseOutput();

// Prints a log that arrives in pieces. On a terminal the log is escaped (LogCleaner); a file or a pipe gets the log's
// bytes unchanged, as with `kubectl logs`. Single-threaded.
class LogPrinter {
 public:
  LogPrinter() : cleans_(OutputIsTerminal()) {}
  ~LogPrinter() { Finish(); }
  LogPrinter(const LogPrinter&) = delete;
  LogPrinter& operator=(const LogPrinter&) = delete;
  void Print(std::string_view piece);
  // Prints the bytes that were held back because they begin an incomplete character.
  void Finish();

 private:
  const bool cleans_;
  LogCleaner cleaner_;
};

}  // namespace ampd::client
