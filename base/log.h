#pragma once

#include <spdlog/common.h>

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

// The log of a server or a worker: lines on stderr, as text or as JSON.
//
//   2026-11-26T10:33:46.123Z info job changed state job_id=j-abc from=QUEUED to=STARTING attempt=1
//   {"time":"2026-11-26T10:33:46.123Z","level":"info","message":"job changed state","job_id":"j-abc",...,"attempt":1}
//
// Times are UTC, in RFC 3339. Whatever is in a message or a field, a line stays one line: control characters are
// escaped. All lines go through one spdlog logger, so those of spdlog::info and its like have the same form.
// Thread-safe.
namespace ampd {

enum class LogFormat { kText, kJson };

using LogField = std::pair<std::string, std::variant<std::string, int64_t>>;
using LogFields = std::vector<LogField>;

// Sets the form of the lines, and which are written: those of `level` and above. `more` are told of every line, too.
// Until it is called lines are text, from info on.
void StartLogging(LogFormat format, spdlog::level::level_enum level, std::vector<spdlog::sink_ptr> more = {});

// Writes a line, with the fields behind the message. A field whose text is empty is left out.
void Log(spdlog::level::level_enum level, std::string_view message, const LogFields& fields = {});

// "text" or "json". REQUIRES: it is one of them.
LogFormat LogFormatNamed(std::string_view name);

}  // namespace ampd
