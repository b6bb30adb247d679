#include "server/audit/audit_log.h"

#include <fcntl.h>
#include <google/protobuf/util/json_util.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <deque>
#include <optional>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "base/error.h"
#include "base/glob.h"
#include "base/io/file.h"
#include "base/status_macros.h"
#include "base/timed_wait.h"

namespace ampd::server {
namespace {

constexpr int kDefaultEntries = 100;
constexpr int kMaxEntries = 1000;
constexpr int64_t kMaxDisorderSeconds = 60;
constexpr absl::Duration kBetweenLooks = absl::Milliseconds(500);

// Returns the entry as one line of JSON. JSON escapes line ends and control characters, so a name cannot begin a new
// line.
std::string LineOf(const v1::AuditEntry& entry) {
  google::protobuf::util::JsonPrintOptions options;
  options.preserve_proto_field_names = true;
  std::string line;
  return google::protobuf::util::MessageToJsonString(entry, &line, options).ok() ? line + "\n" : "";
}

// Returns the entry as one or two lines. The first line has all fields that a server of ampd 0.1 knows; the second line
// has the trace, if there is one.
std::string LinesOf(v1::AuditEntry entry) {
  v1::AuditEntry trace;
  entry.mutable_trace_id()->swap(*trace.mutable_trace_id());
  entry.mutable_span_id()->swap(*trace.mutable_span_id());
  entry.mutable_parent_span_id()->swap(*trace.mutable_parent_span_id());
  return LineOf(entry) + (trace.trace_id().empty() ? "" : LineOf(trace));
}

// Parses the lines of a file, beginning with the last one. Skips lines that a crash has cut off, which are not valid
// JSON.
class ReverseReader {
 public:
  // Returns the entry of this line, with its trace. Returns nullopt if the line has only the trace of the line before
  // it in the file.
  std::optional<v1::AuditEntry> Read(std::string_view line) {
    google::protobuf::util::JsonParseOptions options;
    options.ignore_unknown_fields = true;  // A newer server may have written more fields.
    v1::AuditEntry entry;
    const v1::AuditEntry trace = std::exchange(trace_, {});
    if (!google::protobuf::util::JsonStringToMessage(std::string(line), &entry, options).ok()) {
      return std::nullopt;
    }
    if (!entry.has_time()) {
      trace_ = std::move(entry);
      return std::nullopt;
    }
    entry.MergeFrom(trace);
    return entry;
  }

 private:
  v1::AuditEntry trace_;  // The trace from the previous call of Read, if that line had only a trace.
};

bool IsAsked(const v1::AuditEntry& entry, const v1::ListAuditEntriesRequest& request) {
  const auto key = [](const google::protobuf::Timestamp& time) { return std::pair(time.seconds(), time.nanos()); };
  return (request.caller().empty() || GlobMatches(request.caller(), entry.caller())) &&
         (!request.has_since() || key(entry.time()) >= key(request.since()));
}

}  // namespace

absl::StatusOr<std::unique_ptr<AuditLog>> AuditLog::Open(Options options) {
  std::unique_ptr<AuditLog> log(new AuditLog(std::move(options)));
  {
    const absl::MutexLock lock(&log->mutex_);
    AMPD_RETURN_IF_ERROR(log->OpenFile());
  }
  log->writer_ = std::thread([pointer = log.get()] { pointer->Run(); });
  return log;
}

AuditLog::~AuditLog() {
  queue_.Close();
  if (writer_.joinable()) {
    writer_.join();
  }
}

void AuditLog::Add(v1::AuditEntry entry) {
  if (!queue_.TryPush(std::move(entry))) {
    ++num_left_out_;
    return;
  }
  const absl::MutexLock lock(&count_mutex_);
  ++num_added_;
}

void AuditLog::Run() {
  while (true) {
    std::optional<v1::AuditEntry> entry = queue_.Pop(kBetweenLooks);
    if (entry.has_value()) {
      Write(*entry);
      const absl::MutexLock lock(&count_mutex_);
      ++num_written_;
    } else if (queue_.closed()) {
      return;
    }
  }
}

void AuditLog::AwaitWritten() {
  const absl::MutexLock lock(&count_mutex_);
  const int64_t wanted = num_added_;
  const auto is_written = [&]() ABSL_EXCLUSIVE_LOCKS_REQUIRED(count_mutex_) { return num_written_ >= wanted; };
  AwaitFor(count_mutex_, absl::Condition(&is_written), absl::Seconds(1));
}

absl::Status AuditLog::OpenFile() {
  file_ = UniqueFd(open(options_.path.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC | O_NOFOLLOW, 0600));
  struct stat status = {};
  if (!file_.ok() || fstat(file_.get(), &status) != 0) {
    return ErrnoError(errno, "open the audit log");
  }
  num_bytes_ = status.st_size;
  // If a crash has cut off the last line, a line end is added, so that the next entry begins on a new line.
  char last = '\n';
  const UniqueFd reader(open(options_.path.c_str(), O_RDONLY | O_CLOEXEC));
  if (num_bytes_ > 0 && pread(reader.get(), &last, 1, num_bytes_ - 1) == 1 && last != '\n' &&
      WriteAll(file_.get(), "\n").ok()) {
    ++num_bytes_;
  }
  return absl::OkStatus();
}

bool AuditLog::IsInPlace() const {
  struct stat open_file = {}, named = {};
  return file_.ok() && fstat(file_.get(), &open_file) == 0 && stat(options_.path.c_str(), &named) == 0 &&
         open_file.st_ino == named.st_ino && open_file.st_dev == named.st_dev;
}

void AuditLog::Rotate() {
  for (int number = options_.num_old_files; number >= 1; --number) {
    const std::string younger = number == 1 ? options_.path : absl::StrCat(options_.path, ".", number - 1);
    rename(younger.c_str(), absl::StrCat(options_.path, ".", number).c_str());
  }
  OpenFile().IgnoreError();  // If this fails, the next entry tries again.
}

void AuditLog::Write(const v1::AuditEntry& entry) {
  const absl::MutexLock lock(&mutex_);
  v1::AuditEntry counted = entry;
  const int64_t num_unwritten = entry.num_left_out() + num_left_out_.exchange(0);
  counted.set_num_left_out(num_unwritten);
  const std::string lines = LinesOf(std::move(counted));
  if (!IsInPlace()) {
    OpenFile().IgnoreError();  // If this fails, the next entry tries again.
  } else if (num_bytes_ + static_cast<int64_t>(lines.size()) > options_.max_bytes) {
    Rotate();
  }
  if (!file_.ok() || !WriteAll(file_.get(), lines).ok()) {
    num_left_out_ += num_unwritten + 1;
    if (file_.ok() && ftruncate(file_.get(), num_bytes_) != 0) {  // Removes the incomplete entry.
      file_.Reset();
    }
    return;
  }
  num_bytes_ += static_cast<int64_t>(lines.size());
}

absl::StatusOr<v1::ListAuditEntriesResponse> AuditLog::List(const v1::ListAuditEntriesRequest& request) {
  if (request.limit() < 0) {
    return InvalidFields({{"limit", absl::StrCat("is ", request.limit(), ", must be 0 (100 entries) or more")}});
  }
  const int limit = request.limit() == 0 ? kDefaultEntries : std::min(request.limit(), kMaxEntries);
  if (!listing_.TryLock()) {
    return WithRetryDelay(
        Error(absl::StatusCode::kResourceExhausted, "SERVER_BUSY", "another caller reads the audit log"),
        absl::Seconds(1));
  }
  AwaitWritten();
  v1::ListAuditEntriesResponse response = ListNewest(request, limit);
  listing_.Unlock();
  return response;
}

std::vector<UniqueFd> AuditLog::OpenAll() {
  const absl::MutexLock lock(&mutex_);
  std::vector<UniqueFd> files;
  for (int number = 0; number <= options_.num_old_files; ++number) {
    const std::string path = number == 0 ? options_.path : absl::StrCat(options_.path, ".", number);
    UniqueFd file(open(path.c_str(), O_RDONLY | O_CLOEXEC));
    if (!file.ok()) {
      break;
    }
    files.push_back(std::move(file));
  }
  return files;
}

v1::ListAuditEntriesResponse AuditLog::ListNewest(const v1::ListAuditEntriesRequest& request, int limit) {
  // Entries are ordered by time, except that an entry may be late by up to kMaxDisorderSeconds.
  const int64_t earliest = request.has_since() ? request.since().seconds() - kMaxDisorderSeconds : 0;
  std::deque<v1::AuditEntry> newest;
  bool is_done = false;
  for (const UniqueFd& file : OpenAll()) {
    const absl::StatusOr<std::string> text =
        ReadFile(absl::StrCat("/proc/self/fd/", file.get()), 2 * options_.max_bytes);
    if (!text.ok() || is_done) {
      break;
    }
    const std::vector<absl::string_view> lines = absl::StrSplit(*text, '\n', absl::SkipEmpty());
    ReverseReader reader;
    for (auto line = lines.rbegin(); line != lines.rend() && !is_done; ++line) {
      std::optional<v1::AuditEntry> entry = reader.Read({line->data(), line->size()});
      if (!entry.has_value()) {
        continue;
      }
      is_done = entry->time().seconds() < earliest;
      if (IsAsked(*entry, request)) {
        newest.push_front(*std::move(entry));
        is_done = is_done || static_cast<int>(newest.size()) >= limit;
      }
    }
  }
  v1::ListAuditEntriesResponse response;
  for (v1::AuditEntry& entry : newest) {
    *response.add_entries() = std::move(entry);
  }
  return response;
}

}  // namespace ampd::server
