#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "client/api/auth.h"
#include "client/commands/auth/auth.h"
#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/render/format.h"
#include "client/render/shell_word.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

constexpr int kDefaultEntries = 50;
constexpr int kMaxEntries = 1000;

struct AuditOptions {
  int limit = kDefaultEntries;
  std::string caller;
  std::optional<absl::Duration> since;
};

// Rejects a Unix time in place of a duration. Returns the error; empty for other texts, which the parser checks.
std::string CheckAge(const std::string& text) {
  return TimeOfUnix(text).empty()
             ? ""
             : absl::StrCat("'", text, "' is a Unix time; write how old the oldest entry may be, such as 30m or 7d");
}

int ShowAudit(Session* session, const AuditOptions& options) {
  v1::ListAuditEntriesRequest request;
  request.set_limit(options.limit);
  request.set_caller(options.caller);
  if (options.since.has_value()) {
    request.mutable_since()->set_seconds(absl::ToUnixSeconds(absl::Now() - *options.since));
  }
  return CallAndShow(
      session, [&](JobClient* client) { return ListAuditEntries(client, request); },
      [&](const v1::ListAuditEntriesResponse& response) {
        PrintAuditEntries(*session, {response.entries().begin(), response.entries().end()});
        if (response.entries().empty() && !options.caller.empty() &&
            options.caller.find_first_of(":*") == std::string::npos) {
          session->Note(absl::StrCat("  a caller has its kind before its name; did you mean: --caller ",
                                     ShellWord(Printable("*:" + options.caller))));
        }
      });
}

}  // namespace

Command AuditCommand() {
  const auto options = std::make_shared<AuditOptions>();
  return {
      .name = "audit",
      .help = "Show who changed what on the server, and whose calls it refused (for admins)",
      .examples = "  ampctl audit --since 1h\n  ampctl audit --caller 'token:*' -o wide",
      .formats = ListFormatsBut({OutputFormat::kName}),
      .arguments =
          {{.name = "--limit",
            .value = &options->limit,
            .text = "N",
            .help = "Show the newest N entries, at most 1000 (default 50)",
            .check = InRange(1, kMaxEntries)},
           {.name = "--since",
            .value = &options->since,
            .text = "DURATION",
            .help = "Show only entries newer than this: 30m, 7d",
            .check = CheckAge},
           {.name = "--caller",
            .value = &options->caller,
            .text = "PATTERN",
            .help =
                "Show only this caller, as in the CALLER column: token:ann, or '*ann'; * stands for any characters"}},
      .run = [options](Session* session) { return ShowAudit(session, *options); }};
}

}  // namespace ampd::client
