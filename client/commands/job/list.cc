#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "base/status_macros.h"
#include "client/commands/checks.h"
#include "client/commands/filter_meant.h"
#include "client/commands/job/job.h"
#include "client/commands/list_watch.h"
#include "client/commands/sorting.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ListOptions {
  std::string filter;
  int limit = 0;           // 0: all jobs
  std::string page_token;  // where to start: `next_page_token` of an earlier list
  std::string sort;
  ListWatchOptions watch;
};

const std::vector<SortField<v1::Job>>& JobSortFields() {
  using Fields = std::vector<SortField<v1::Job>>;
  static const Fields* const kFields = new Fields{
      {"id", [](const v1::Job& job) { return job.id(); }},
      {"name", [](const v1::Job& job) { return job.spec().name(); }},
      {"state", [](const v1::Job& job) { return static_cast<double>(job.state()); }},
      {"step", [](const v1::Job& job) { return static_cast<double>(job.progress().step()); }},
      {"loss",
       [](const v1::Job& job) { return job.progress().has_loss() ? SortValue(job.progress().loss()) : SortValue(); }},
      {"precision", LatestPrecision},
      {"age", [](const v1::Job& job) { return -static_cast<double>(job.submit_order()); }},
      {"reason", ReasonWord},
      {"worker", LatestWorker},
      {"priority", [](const v1::Job& job) { return static_cast<double>(job.spec().priority()); }}};
  return *kFields;
}

// What the command has read from the server, apart from the jobs that it has already printed.
struct Listing {
  std::vector<ItemText> held;  // Jobs that are not printed yet.
  int64_t num_listed = 0;
  int64_t num_all = 0;  // The number of matching jobs; 0: the server does not report it.
  std::string next_page_token;
};

// Prints a note if there are more jobs than were listed, and how to list them.
void NoteTruncation(const Session& session, const Listing& listing) {
  const std::string total = listing.num_all > 0 ? absl::StrCat(" of ", listing.num_all) : "";
  session.Note(absl::StrCat(
      listing.num_listed, total, " jobs", total.empty() ? ", and there are more" : "",
      listing.next_page_token.empty() ? "" : "; next page: --page-token " + Printable(listing.next_page_token),
      "; all jobs: --limit 0"));
}

// Reads all jobs, and returns the first `options.limit` of them in the order of --sort.
absl::StatusOr<Listing> ReadSorted(const Session& session, JobClient* client, const ListOptions& options) {
  const SortOrder order = ParseSortOrder(options.sort);
  SortBuffer<ItemText> sorted(order.is_descending, options.limit);
  AMPD_RETURN_IF_ERROR(client->ForEachJobPage(options.filter, 0, "", [&](const v1::ListJobsResponse& page) {
    for (const v1::Job& job : page.jobs()) {
      sorted.Add(SortValueOf(JobSortFields(), order, job), TextOf(session, job));
    }
  }));
  Listing listing;
  listing.held = sorted.Take();
  listing.num_listed = static_cast<int64_t>(listing.held.size());
  listing.num_all = static_cast<int64_t>(sorted.num_added());
  return listing;
}

// Reads the jobs in the server's order. Prints each page as it arrives, except with -o json and a limit: the form of
// that JSON depends on whether there are more jobs than the limit, which is known only at the end.
absl::StatusOr<Listing> ReadPages(const Session& session, JobClient* client, const ListOptions& options,
                                  ListPrinter* printer) {
  const bool holds = session.options().output == OutputFormat::kJson && options.limit > 0;
  Listing listing;
  const auto on_page = [&](const v1::ListJobsResponse& page) {
    std::vector<ItemText> texts;
    for (const v1::Job& job : page.jobs()) {
      texts.push_back(TextOf(session, job));
    }
    listing.num_listed += page.jobs_size();
    listing.num_all = std::max(listing.num_all, page.total_size());
    listing.next_page_token = page.next_page_token();
    if (holds) {
      std::move(texts.begin(), texts.end(), std::back_inserter(listing.held));
    } else {
      printer->Add(texts);
    }
  };
  AMPD_RETURN_IF_ERROR(client->ForEachJobPage(options.filter, options.limit, options.page_token, on_page));
  return listing;
}

// Prints the error and, if the server refused the filter, the filter that was probably meant.
int FailWithFilterMeant(Session* session, const absl::Status& status, const std::string& filter) {
  const int exit_code = session->Fail(status);
  const std::string advice = absl::IsInvalidArgument(status) ? AdviceOnFilter(filter, /*is_valid=*/false) : "";
  if (!advice.empty()) {
    session->Note("  " + Printable(advice));
  }
  return exit_code;
}

void NoteNoJobs(const Session& session, const std::string& filter) {
  if (filter.empty()) {
    NoteEmptyList(session, "jobs", "submit one with: " + CommandToCreate(session, "job submit -f job.yaml"),
                  "job list");
    return;
  }
  const std::string in_tenant = InTenant(session);
  const std::string advice = AdviceOnFilter(filter, /*is_valid=*/true);
  session.Note(absl::StrCat("no job", in_tenant, " matches --filter '", Printable(filter), "'; to list all: ",
                            in_tenant.empty() ? session.Command("job list") : InAllTenants(session, "job list"),
                            advice.empty() ? "" : "\n  " + Printable(advice)));
}

int ListJobs(Session* session, const ListOptions& options) {
  const auto client = session->Client();
  if (!client.ok()) {
    return session->Fail(client.status());
  }
  ListPrinter printer(session, JobListHeadings(*session));
  const auto listing =
      options.sort.empty() ? ReadPages(*session, *client, options, &printer) : ReadSorted(*session, *client, options);
  if (!listing.ok()) {
    return FailWithFilterMeant(session, listing.status(), options.filter);
  }
  const bool is_part =
      !listing->next_page_token.empty() || (!options.sort.empty() && listing->num_listed < listing->num_all);
  if (is_part && session->options().output == OutputFormat::kJson && !session->names_only()) {
    PrintPartOfList("jobs", listing->held, listing->num_all, listing->next_page_token);
  } else {
    printer.Add(listing->held);
    printer.End();
  }
  if (listing->num_listed == 0 && session->for_people()) {
    NoteNoJobs(*session, options.filter);
  }
  if (is_part) {
    NoteTruncation(*session, *listing);
  }
  return kExitOk;
}

// Returns those values of a job for which --watch prints a new line when they change. Excludes values that change with
// time alone.
std::string StateToWatch(const v1::Job& job) {
  const v1::Progress& progress = job.progress();
  return absl::StrJoin({v1::Job::State_Name(job.state()), ReasonWord(job), LatestPrecision(job), LatestWorker(job),
                        absl::StrCat(progress.step()), absl::StrCat(progress.loss())},
                       " ");
}

absl::StatusOr<ListReading> ReadOnce(const Session& session, JobClient* client, const ListOptions& options, int limit) {
  const SortOrder order = ParseSortOrder(options.sort);
  ListReading reading;
  SortBuffer<ListReading::Entry> sorted(order.is_descending, limit);
  const auto on_page = [&](const v1::ListJobsResponse& page) {
    reading.num_all = std::max(reading.num_all, page.total_size());
    for (const v1::Job& job : page.jobs()) {
      sorted.Add(order.field.empty() ? SortValue() : SortValueOf(JobSortFields(), order, job),
                 {job.id(), StateToWatch(job), TextOf(session, job)});
    }
  };
  AMPD_RETURN_IF_ERROR(client->ForEachJobPage(options.filter, order.field.empty() ? limit : 0, "", on_page));
  reading.entries = sorted.Take();
  return reading;
}

int Run(Session* session, const ListOptions& options) {
  if (const absl::Status allowed = CheckListWatch(options.watch); !allowed.ok()) {
    return session->Fail(allowed);
  }
  if (!options.page_token.empty() && (options.watch.watch || !options.sort.empty())) {
    return session->Fail(absl::InvalidArgumentError(
        "--page-token continues a list in the server's order; it can't be combined with --sort or --watch"));
  }
  if (!options.watch.watch) {
    return ListJobs(session, options);
  }
  return WatchList(session, options.watch.interval, JobListHeadings(*session), [&](JobClient* client, int space) {
    const int limit =
        space == 0 || options.limit == 0 ? std::max(space, options.limit) : std::min(space, options.limit);
    return ReadOnce(*session, client, options, limit);
  });
}

std::vector<Argument> ArgumentsOf(ListOptions* options) {
  std::vector<Argument> arguments = {
      {.name = "--filter",
       .value = &options->filter,
       .text = "TERMS",
       .help =
           "List only jobs that match terms such as state=running or name!=test*, joined by AND, OR, NOT and "
           "parentheses\nColumns: state, name, queue, id, owner (who submitted the job: user:ann, or token:ci for a "
           "token), worker (of its newest run), tenant, labels.KEY\nStates, in small or capital letters: queued, "
           "starting, running, pausing, paused, cancelling, succeeded, failed, cancelled"},
      SortOption(&options->sort, NamesOf(JobSortFields())),
      {.name = "--limit",
       .value = &options->limit,
       .text = "N",
       .help = "Maximum number of jobs (default 0 = all)",
       .check = CheckCount}};
  const std::vector<Argument> watch = ListWatchArguments(&options->watch);
  arguments.insert(arguments.end(), watch.begin(), watch.end());
  arguments.push_back({.name = "--page-token",
                       .value = &options->page_token,
                       .text = "TOKEN",
                       .help = "Continue a list at this token, which ampctl job list prints if there are more jobs"});
  return arguments;
}

}  // namespace

Command ListJobsCommand() {
  const auto options = std::make_shared<ListOptions>();
  return {.name = "list",
          .alias = "ls",
          .help = "List jobs, newest first",
          .examples =
              "  ampctl job list -o wide\n"
              "  ampctl job list --filter 'state=running AND (labels.team=vision OR name=\"resnet*\")'\n"
              "  ampctl job list --sort loss --limit 10\n"
              "  ampctl job list --watch --filter 'state!=succeeded'\n"
              "  ampctl job list -o csv > jobs.csv\n"
              "  ampctl job list -q --filter state=queued | xargs -r ampctl job cancel",
          .formats = ListFormats(),
          .arguments = ArgumentsOf(options.get()),
          .run = [options](Session* session) { return Run(session, *options); }};
}

}  // namespace ampd::client
