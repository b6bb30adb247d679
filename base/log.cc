#include "base/log.h"

#include <spdlog/formatter.h>
#include <spdlog/sinks/stdout_sinks.h>
#include <spdlog/spdlog.h>

#include <memory>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "absl/time/time.h"
#include "base/log_json.h"
#include "base/text.h"

namespace ampd {
namespace {

// The fields of the log line that this thread is writing; null if the line has none. A thread-local variable can pass
// them to the sinks, because each line is formatted on the thread that logs it.
thread_local const LogFields* current_fields = nullptr;

std::string TimeText(spdlog::log_clock::time_point time) {
  return absl::FormatTime("%Y-%m-%dT%H:%M:%E3SZ", absl::FromChrono(time), absl::UTCTimeZone());
}

std::string_view ViewOf(spdlog::string_view_t text) { return {text.data(), text.size()}; }

// Writes a field's value: as it is if it is one word, otherwise in quotes.
std::string ValueText(const std::variant<std::string, int64_t>& value) {
  if (const int64_t* number = std::get_if<int64_t>(&value)) {
    return absl::StrCat(*number);
  }
  const std::string text = OneLine(std::get<std::string>(value));
  const bool is_word = !text.empty() && text.find_first_of(" \"=\\") == std::string::npos;
  return is_word ? text : absl::StrCat("\"", absl::StrReplaceAll(text, {{"\"", "\\\""}}), "\"");
}

bool IsEmpty(const LogField& field) {
  const std::string* text = std::get_if<std::string>(&field.second);
  return text != nullptr && text->empty();
}

class LineFormatter final : public spdlog::formatter {
 public:
  explicit LineFormatter(LogFormat format) : format_(format) {}

  void format(const spdlog::details::log_msg& line, spdlog::memory_buf_t& to) override {
    const LogFields fields = current_fields == nullptr ? LogFields() : *current_fields;
    const std::string level(ViewOf(spdlog::level::to_string_view(line.level)));
    const std::string text = format_ == LogFormat::kJson
                                 ? JsonLine(TimeText(line.time), level, ViewOf(line.payload), fields)
                                 : TextLine(TimeText(line.time), level, ViewOf(line.payload), fields);
    to.append(text.data(), text.data() + text.size());
  }

  std::unique_ptr<spdlog::formatter> clone() const override { return std::make_unique<LineFormatter>(format_); }

 private:
  static std::string TextLine(const std::string& time, const std::string& level, std::string_view message,
                              const LogFields& fields) {
    std::string text = absl::StrCat(time, " ", level, " ", OneLine(message));
    for (const auto& [name, value] : fields) {
      absl::StrAppend(&text, " ", name, "=", ValueText(value));
    }
    return text + "\n";
  }

  const LogFormat format_;
};

std::shared_ptr<spdlog::logger> MakeLogger(LogFormat format, spdlog::level::level_enum level,
                                           std::vector<spdlog::sink_ptr> more) {
  auto written = std::make_shared<spdlog::sinks::stderr_sink_mt>();
  more.insert(more.begin(), std::move(written));
  auto logger = std::make_shared<spdlog::logger>("ampd", more.begin(), more.end());
  logger->set_formatter(std::make_unique<LineFormatter>(format));
  logger->set_level(level);
  return logger;
}

// Creates, on the first call, the logger that all lines go through. It writes text until StartLogging.
void EnsureLogger() {
  static const bool is_made = [] {
    spdlog::set_default_logger(MakeLogger(LogFormat::kText, spdlog::level::info, {}));
    return true;
  }();
  static_cast<void>(is_made);
}

}  // namespace

void StartLogging(LogFormat format, spdlog::level::level_enum level, std::vector<spdlog::sink_ptr> more) {
  EnsureLogger();
  spdlog::set_default_logger(MakeLogger(format, level, std::move(more)));
}

void SetLogLevel(spdlog::level::level_enum level) {
  EnsureLogger();
  spdlog::default_logger_raw()->set_level(level);
}

void Log(spdlog::level::level_enum level, std::string_view message, const LogFields& fields) {
  EnsureLogger();
  LogFields shown;
  for (const LogField& field : fields) {
    if (!IsEmpty(field)) {
      shown.push_back(field);
    }
  }
  current_fields = &shown;
  spdlog::default_logger_raw()->log(level, spdlog::string_view_t(message.data(), message.size()));
  current_fields = nullptr;
}

bool IsLogged(spdlog::level::level_enum level) {
  EnsureLogger();
  return spdlog::default_logger_raw()->should_log(level);
}

LogFormat LogFormatNamed(std::string_view name) { return name == "json" ? LogFormat::kJson : LogFormat::kText; }

}  // namespace ampd
