#include <algorithm>
#include <memory>
#include <optional>
#include <string>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "base/status_macros.h"
#include "base/units.h"
#include "client/api/cancellation.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/job/follow/attempt_wait.h"
#include "client/commands/job/follow/detach.h"
#include "client/commands/job/follow/reconnect.h"
#include "client/commands/job/job.h"
#include "client/render/log_lines.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr int64_t kFirstTailBytes = 64 << 10;
constexpr int64_t kMaxLogBytes = int64_t{1} << 30;  // more than the server stores of any log

struct LogsOptions {
  std::string id;
  int attempt = 0;                // 0: the newest; with `follow` also all later ones
  ByteCount tail_bytes;           // how many bytes at the end of the log to print; 0: the whole log
  std::optional<int> tail_lines;  // how many lines at the end of the log to print; unset: the whole log
  std::string since;              // print only lines from this moment on; empty: the whole log
  bool follow = false;
  std::optional<absl::Duration> retry_for;
};

// Prints the logs of one job's attempts. Single-threaded.
class LogsView {
 public:
  LogsView(Session* session, JobClient* client, std::string id, const LogsOptions& options)
      : session_(session),
        client_(client),
        id_(std::move(id)),
        options_(options),
        patience_(PatienceOf(options.retry_for)) {
    if (const auto since = ParseMoment(options.since, absl::Now(), absl::LocalTimeZone()); since.has_value()) {
      since_.emplace(*since);
    }
  }

  // Prints what the options ask for. Returns the error that ended the printing.
  absl::Status Print() {
    return options_.follow && options_.attempt == 0 ? FollowAttempts() : PrintFirst(options_.attempt);
  }

  // Returns whether the printed logs had neither text nor missing bytes.
  bool empty() const { return empty_; }
  bool printed() const { return printed_; }

 private:
  absl::Status FollowAttempts();
  absl::Status PrintFirst(int attempt);
  absl::Status PrintFrom(int attempt, int64_t offset_bytes);
  absl::StatusOr<v1::TailLogsResponse> ReadTail(int attempt);
  void PrintPiece(const v1::TailLogsResponse& piece, LogPrinter* printer);

  Session* const session_;
  JobClient* const client_;
  const std::string id_;
  const LogsOptions& options_;
  const Patience patience_;
  std::optional<LogSince> since_;
  bool answered_ = false;  // whether the server has answered; if true, reconnect after a lost connection
  bool empty_ = true;
  bool printed_ = false;
};

absl::Status LogsView::FollowAttempts() {
  AttemptWait wait(session_, client_, id_, patience_);
  AMPD_ASSIGN_OR_RETURN(int attempt, wait.Await(1));
  answered_ = true;
  AMPD_RETURN_IF_ERROR(PrintFirst(attempt));
  while (true) {
    AMPD_ASSIGN_OR_RETURN(const int num_attempts, wait.Await(attempt + 1));
    if (num_attempts <= attempt) {
      return absl::OkStatus();
    }
    ++attempt;
    session_->Note(absl::StrCat("attempt ", attempt, " begins"));
    AMPD_RETURN_IF_ERROR(PrintFrom(attempt, 0));
  }
}

// Prints the log of an attempt, or only its end if the options ask for that.
absl::Status LogsView::PrintFirst(int attempt) {
  if (!options_.tail_lines.has_value()) {
    return PrintFrom(attempt, -options_.tail_bytes.bytes);
  }
  AMPD_ASSIGN_OR_RETURN(const v1::TailLogsResponse tail, ReadTail(attempt));
  empty_ = tail.content().empty();
  const size_t start = StartOfLastLines(tail.content(), *options_.tail_lines);
  return PrintFrom(tail.attempt() == 0 ? attempt : tail.attempt(), tail.offset_bytes() + static_cast<int64_t>(start));
}

// Returns the end of an attempt's log: at least options_.tail_lines lines, or all lines if there are fewer. If bytes
// are missing in the log, returns only lines after the gap.
absl::StatusOr<v1::TailLogsResponse> LogsView::ReadTail(int attempt) {
  for (int64_t num_bytes = kFirstTailBytes;; num_bytes *= 8) {
    LogTail::Options options;
    options.request.set_id(id_);
    options.request.set_attempt(attempt);
    options.request.set_offset_bytes(-num_bytes);
    options.patience = patience_;
    v1::TailLogsResponse tail;
    LogTail log(client_, options, session_->CancelledByInterrupt());
    AMPD_RETURN_IF_ERROR(log.Run([&tail](const v1::TailLogsResponse& piece) {
      if (tail.content().empty() || piece.dropped_bytes() > 0) {
        tail = piece;
      } else {
        tail.mutable_content()->append(piece.content());
      }
    }));
    // If the first of the wanted lines seems to begin at the first byte that was read, it may begin earlier in the log.
    if (StartOfLastLines(tail.content(), *options_.tail_lines) > 0 || tail.offset_bytes() == 0 ||
        num_bytes > kMaxLogBytes) {
      return tail;
    }
  }
}

absl::Status LogsView::PrintFrom(int attempt, int64_t offset_bytes) {
  LogTail::Options options;
  options.request.set_id(id_);
  options.request.set_attempt(attempt);
  options.request.set_offset_bytes(offset_bytes);
  options.request.set_follow(options_.follow);
  options.patience = patience_;
  if (answered_) {
    options.patience.before_first_answer = options.patience.after_loss;
  }
  LogPrinter printer;
  LogTail log(client_, options, session_->CancelledByInterrupt());
  return log.Run([this, &printer](const v1::TailLogsResponse& piece) { PrintPiece(piece, &printer); });
}

void LogsView::PrintPiece(const v1::TailLogsResponse& piece, LogPrinter* printer) {
  empty_ = empty_ && piece.content().empty() && piece.dropped_bytes() == 0;
  if (piece.dropped_bytes() > 0) {
    session_->Note(absl::StrCat("(", piece.dropped_bytes(),
                                " bytes are missing here: only the beginning and the end of a long log are stored)"));
  }
  const std::string text = since_.has_value() ? since_->Filter(piece.content()) : piece.content();
  printed_ = printed_ || !text.empty();
  printer->Print(text);
}

int Logs(Session* session, const LogsOptions& options) {
  if (options.tail_lines.has_value() && options.tail_bytes.bytes > 0) {
    return session->Fail(absl::InvalidArgumentError("give either --tail or --tail-bytes, not both"));
  }
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  const auto id = FindJobIdPatiently(session, *client, options.id, PatienceOf(options.retry_for));
  if (!id.ok()) {
    return session->Fail(id.status());
  }
  LogsView view(session, *client, *id, options);
  const absl::Status ended = view.Print();
  if (interrupt->cancelled()) {
    return DetachAfterEcho(session, *id, options.follow ? "logs -f" : "logs");
  }
  if (!ended.ok()) {
    return session->Fail(ended);
  }
  if (view.empty()) {
    session->Note("the trainer wrote nothing; to see what happened: " + session->Command("job events " + *id));
  } else if (!view.printed() && !options.since.empty()) {
    session->Note(absl::StrCat("the log has no lines from the time given by --since '", options.since, "' or later"));
  }
  return kExitOk;
}

// Returns what is wrong with a value of --tail; empty if nothing is. The values -1 and "all", by which other programs
// print the whole log, get an answer of their own.
std::string CheckTail(const std::string& text) {
  const std::string problem = CheckCount(text);
  return problem.empty() || (text != "-1" && text != "all") ? problem
                                                            : problem + "; to print the whole log, leave --tail out";
}

// Returns the duration that was probably meant by a text that had a minus sign in front; empty if there is none.
std::string GuessedAge(const std::string& text) { return ParseDuration(text).has_value() ? text : GuessDuration(text); }

std::string CheckMoment(const std::string& text) {
  if (const std::string time = TimeOfUnix(text); !time.empty()) {
    return absl::StrCat("'", text, "' is a Unix time, which is not accepted; write ", time);
  }
  const bool is_number = !text.empty() && std::all_of(text.begin(), text.end(), absl::ascii_isdigit);
  const std::string guess = is_number               ? text + "m"
                            : text.starts_with('-') ? GuessedAge(text.substr(1))
                                                    : GuessDuration(text);
  return ParseMoment(text, absl::Now(), absl::LocalTimeZone()).has_value()
             ? ""
             : absl::StrCat("'", text, "' is not ", kMomentWords,
                            guess.empty() ? "" : absl::StrCat("; did you mean ", guess, "?"));
}

}  // namespace

Command LogsOfJobCommand() {
  const auto options = std::make_shared<LogsOptions>();
  return {
      .name = "logs",
      .help = "Print the lines that a job's trainer logs. For its state and loss: ampctl job watch",
      .examples =
          "  ampctl job logs -f ID --tail 20\n"
          "  ampctl job logs ID --since 10m\n"
          "  ampctl job logs ID --attempt 1 --tail-bytes 4096",
      .arguments = {JobId(&options->id),
                    {.name = "-f,--follow",
                     .value = &options->follow,
                     .help = "After the log so far, print each new line until the job ends, also the lines of later "
                             "attempts. With --attempt: until that attempt ends"},
                    AttemptNumber(&options->attempt),
                    {.name = "--tail",
                     .value = &options->tail_lines,
                     .text = "N",
                     .help = "Print only the last N lines (default: the whole log)",
                     .check = CheckTail},
                    {.name = "--tail-bytes",
                     .value = &options->tail_bytes,
                     .text = "SIZE",
                     .help = "Print only the end of the log: this many bytes, such as 4096 or 64KiB (default 0 = all)"},
                    {.name = "--since",
                     .value = &options->since,
                     .text = "WHEN",
                     .help = "Print only lines from this moment on: a duration before now (10m), or a time "
                             "(2026-01-31T23:59:59Z; without a zone: local time)",
                     .check = CheckMoment},
                    ReconnectFor(&options->retry_for)},
      .run = [options](Session* session) { return Logs(session, *options); }};
}

}  // namespace ampd::client
