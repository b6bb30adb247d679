#pragma once

#include <spdlog/common.h>

#include <string_view>
#include <vector>

#include "base/log_fields.h"

// The log of a server or a worker: lines on stderr, as text or as JSON.
//
//   2026-11-26T10:33:46.123Z info job changed state job_id=j-abc from=QUEUED to=STARTING attempt=1
//   {"time":"2026-11-26T10:33:46.123Z","level":"info","message":"job changed state","job_id":"j-abc",...,"attempt":1}
//
// Times are UTC, in RFC 3339. A line stays one line whatever a message or a field contains: control characters are
// escaped. All lines go through one spdlog logger, so lines of spdlog::info and the like have the same form.
// Thread-safe.
namespace ampd {

enum class LogFormat { kText, kJson };

// Sets the form of the lines and the lowest level that is written. Every line also goes to the sinks in `more`. Before
// the first call, the log writes text lines of level info and above.
void StartLogging(LogFormat format, spdlog::level::level_enum level, std::vector<spdlog::sink_ptr> more = {});

// Sets the lowest level that is written from now on.
void SetLogLevel(spdlog::level::level_enum level);

// Writes a line, with the fields after the message. A field with an empty text is left out.
void Log(spdlog::level::level_enum level, std::string_view message, const LogFields& fields = {});

// Whether lines of this level are written at all.
bool IsLogged(spdlog::level::level_enum level);

// The format with this name. REQUIRES: `name` is "text" or "json".
LogFormat LogFormatNamed(std::string_view name);

}  // namespace ampd
