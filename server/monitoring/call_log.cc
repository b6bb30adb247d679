#include "server/monitoring/call_log.h"

#include <iterator>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/log.h"
#include "base/text.h"

namespace ampd::server {
namespace {

constexpr size_t kMaxMessageBytes = 512;

// Returns the log level for a refused call: error if the server is at fault, warning if a resource or a permission is
// missing, otherwise info.
spdlog::level::level_enum LevelOf(const absl::Status& status) {
  switch (status.code()) {
    case absl::StatusCode::kInternal:
    case absl::StatusCode::kUnknown:
    case absl::StatusCode::kDataLoss:
      return spdlog::level::err;
    case absl::StatusCode::kResourceExhausted:
    case absl::StatusCode::kPermissionDenied:
    case absl::StatusCode::kUnauthenticated:
      return spdlog::level::warn;
    default:
      return spdlog::level::info;
  }
}

}  // namespace

std::map<std::string, CallLog::Window> CallLog::TakeOver() {
  std::map<std::string, Window> over;
  const absl::Duration now = clock_->SinceBoot();
  for (auto window = windows_.begin(); window != windows_.end();) {
    const bool is_over = now - window->second.start >= kWindow;
    if (is_over && window->second.num_left_out > 0) {
      over.insert(*window);
    }
    window = is_over ? windows_.erase(window) : std::next(window);
  }
  return over;
}

void CallLog::Finished(std::string_view method, absl::StatusCode code, absl::Duration time, bool is_stream,
                       const TraceContext& trace) {
  next_->Finished(method, code, time, is_stream, trace);
  if (!IsLogged(spdlog::level::debug)) {
    return;
  }
  LogFields fields = {{"method", std::string(method)}, {"code", absl::StatusCodeToString(code)}};
  if (!is_stream) {
    fields.emplace_back("milliseconds", absl::ToInt64Milliseconds(time));
  }
  AddTrace(trace, &fields);
  Log(spdlog::level::debug, "call ended", fields);
}

void CallLog::Refused(std::string_view method, const absl::Status& status, const std::string& peer,
                      const TraceContext& trace) {
  const std::string code = absl::StatusCodeToString(status.code());
  const std::string reason = ReasonOf(status);
  bool write = false;
  {
    absl::MutexLock lock(&mutex_);
    Window& window = windows_[absl::StrCat(std::string(method), " ", code, " ", reason)];
    const absl::Duration now = clock_->SinceBoot();
    if (window.num_written == 0) {
      window = {now, 0, 0, std::string(method), code, reason};
    }
    write = window.num_written < kPerWindow;
    window.num_written += write ? 1 : 0;
    window.num_left_out += write ? 0 : 1;
  }
  if (write) {
    LogFields fields = {{"method", std::string(method)},
                        {"code", code},
                        {"reason", reason},
                        {"peer", peer},
                        {"detail", Shortened({status.message().data(), status.message().size()}, kMaxMessageBytes)}};
    AddTrace(trace, &fields);
    Log(LevelOf(status), "call refused", fields);
  }
}

void CallLog::WorkerAttached(const std::string& worker, const std::string& peer, const TraceContext& trace) {
  next_->WorkerAttached(worker, peer, trace);
  LogFields fields = {{"worker", worker}, {"peer", peer}};
  AddTrace(trace, &fields);
  Log(spdlog::level::info, "worker attached", fields);
}

void CallLog::Flush() {
  std::map<std::string, Window> over;
  {
    absl::MutexLock lock(&mutex_);
    over = TakeOver();
  }
  for (const auto& [key, window] : over) {
    Log(spdlog::level::info, "calls refused, left out of the log",
        {{"method", window.method}, {"code", window.code}, {"reason", window.reason}, {"count", window.num_left_out}});
  }
}

}  // namespace ampd::server
