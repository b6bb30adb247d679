#pragma once

#include <string>
#include <string_view>

#include "absl/strings/str_format.h"
#include "client/render/format.h"

// The door through which ampctl writes to its standard output and standard error. Texts hold names, messages and
// file contents from outside, which must never control the user's terminal: everything that could is escaped here
// (PrintableLines), whether the stream is a terminal or a file. The escapes "\u202e" are also those of JSON and of
// quoted YAML, so these stay valid. Only WriteBytes and LogPrinter write bytes as they are.
// tests/style/check_style.py enforces that the rest of the client uses no other door.
namespace ampd::client {

// Whether standard output is a terminal.
bool OutputIsTerminal();

// Returns the number of columns of the terminal that is standard output; 0 if it is none, or its size is not known.
int OutputWidth();

// Writes data of one or more lines, such as JSON, to standard output. Its lines are never broken.
void WriteText(std::string_view text);

// Writes a text for people to standard output. On a terminal its lines are broken to fit (WrapLines).
void WriteProse(std::string_view text);

// Like WriteProse, but keeps the colours of Palette (ColouredLines).
void WriteColoured(std::string_view text);

// Writes a text to standard error, after everything that was written to standard output. Leaves out the middle of a
// word of more than 512 bytes and of a line of more than 3 KiB, such as an argument that an error repeats. On a
// terminal the lines are broken to fit (WrapLines).
void WriteMessage(std::string_view text);

// Formats a text for people and writes it to standard output.
template <typename... Args>
void WriteFormatted(const absl::FormatSpec<Args...>& format, const Args&... args) {
  WriteProse(absl::StrFormat(format, args...));
}

// Writes bytes to standard output as they are.
void WriteBytes(std::string_view bytes);

void FlushOutput();

// Whether output can no longer be written, because a write failed or the reader closed the pipe.
bool OutputHasFailed();

// Writes the rest of the output at the end of the program. Returns why not all output could be written, for example
// because the disk is full; empty if all was written, or if the reader closed the pipe early.
std::string CloseOutput();

// Prints a log that arrives in pieces. On a terminal it is made printable (LogCleaner); a file or a pipe gets its bytes
// unchanged, as `kubectl logs` does. Single-threaded.
class LogPrinter {
 public:
  LogPrinter() : cleans_(OutputIsTerminal()) {}
  ~LogPrinter() { Finish(); }
  LogPrinter(const LogPrinter&) = delete;
  LogPrinter& operator=(const LogPrinter&) = delete;
  void Print(std::string_view piece);
  // Prints what was held back because more of a character was to come.
  void Finish();

 private:
  const bool cleans_;
  LogCleaner cleaner_;
};

}  // namespace ampd::client
