#include <cstdio>
#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/api/cancellation.h"
#include "client/api/job_watch.h"
#include "client/commands/arguments.h"
#include "client/commands/checks.h"
#include "client/commands/job/detach.h"
#include "client/commands/job/job.h"

namespace ampd::client {
namespace {

struct LogsOptions {
  std::string id;
  int attempt = 0;
  int64_t tail_bytes = 0;  // how many bytes at the end of the log to print; 0: the whole log
  bool follow = false;
};

int Logs(Session* session, const LogsOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  LogTail::Options tail;
  tail.request.set_id(options.id);
  tail.request.set_attempt(options.attempt);
  tail.request.set_offset_bytes(-options.tail_bytes);
  tail.request.set_follow(options.follow);
  LogTail log(*client, tail, interrupt);
  bool empty = true;
  const absl::Status ended = log.Run([session, &empty](const v1::TailLogsResponse& piece) {
    empty = empty && piece.content().empty() && piece.dropped_bytes() == 0;
    if (piece.dropped_bytes() > 0) {
      session->Note(absl::StrCat("(", piece.dropped_bytes(), " bytes missing here: the log is bounded)"));
    }
    std::fwrite(piece.content().data(), 1, piece.content().size(), stdout);
    std::fflush(stdout);
  });
  if (interrupt->cancelled()) {
    return DetachAfterEcho(session, options.id, options.follow ? "logs -f" : "logs");
  }
  if (ended.ok() && empty) {
    session->Note("the trainer wrote nothing; to see what happened: ampctl job events " + options.id);
  }
  return ended.ok() ? kExitOk : session->Fail(ended);
}

}  // namespace

Command LogsOfJobCommand() {
  const auto options = std::make_shared<LogsOptions>();
  return {
      .name = "logs",
      .help = "Print the trainer's log",
      .examples = "  ampctl job logs -f ID\n  ampctl job logs ID --attempt 1 --tail-bytes 4096",
      .arguments = {JobId(&options->id),
                    {.name = "-f,--follow", .value = &options->follow, .help = "Keep printing until the attempt ends"},
                    AttemptNumber(&options->attempt),
                    {.name = "--tail-bytes",
                     .value = &options->tail_bytes,
                     .text = "N",
                     .help = "Print only the last N bytes (default 0 = all)",
                     .check = CheckCount}},
      .run = [options](Session* session) { return Logs(session, *options); }};
}

}  // namespace ampd::client
