#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/commands/job/job.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ListOptions {
  std::string filter;
  int limit = 50;
  std::string page_token;  // where to start: `next_page_token` of an earlier list
};

// If there are more jobs than were printed, warns and shows how to list them.
void NoteTruncation(const Session& session, const JobClient::JobList& list) {
  if (list.next_page_token.empty()) {
    return;
  }
  const std::string total = list.total_size > 0 ? absl::StrCat(" of ", list.total_size) : "";
  session.Warn(absl::StrCat(list.jobs.size(), total, " jobs", total.empty() ? ", and there are more" : "",
                            "; next page: --page-token ", Printable(list.next_page_token), ", all: --limit 0"));
}

int ListJobs(Session* session, const ListOptions& options) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListJobs(options.filter, options.limit, options.page_token); },
      [&](const JobClient::JobList& list) {
        PrintJobs(*session, list, options.filter);
        NoteTruncation(*session, list);
      });
}

}  // namespace

Command ListJobsCommand() {
  const auto options = std::make_shared<ListOptions>();
  return {
      .name = "list",
      .alias = "ls",
      .help = "List jobs, newest first",
      .examples =
          "  ampctl job list -o wide\n"
          "  ampctl job list --filter 'state=RUNNING AND labels.team=vision'\n"
          "  ampctl job list -q --filter state=QUEUED | xargs ampctl job cancel",
      .formats = AllFormats(),
      .arguments = {{.name = "--filter",
                     .value = &options->filter,
                     .text = "TERMS",
                     .help = "Only jobs that match all terms, joined by AND: state=, name=, queue=, labels.KEY=, id="},
                    {.name = "--limit",
                     .value = &options->limit,
                     .text = "N",
                     .help = "Maximum number of jobs (default 50, 0 = all)",
                     .check = CheckCount},
                    {.name = "--page-token",
                     .value = &options->page_token,
                     .text = "TOKEN",
                     .help = "Continue an incomplete list at the token that it printed"}},
      .run = [options](Session* session) { return ListJobs(session, *options); }};
}

}  // namespace ampd::client
