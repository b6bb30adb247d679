#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/commands/call.h"
#include "client/commands/list_watch.h"
#include "client/commands/sorting.h"
#include "client/commands/worker/worker.h"
#include "client/render/format.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

struct ListOptions {
  std::string sort;
  ListWatchOptions watch;
};

const std::vector<SortField<v1::Worker>>& WorkerSortFields() {
  using Fields = std::vector<SortField<v1::Worker>>;
  static const Fields* const kFields =
      new Fields{{"name", [](const v1::Worker& worker) { return worker.name(); }},
                 {"state", [](const v1::Worker& worker) { return static_cast<double>(worker.state()); }},
                 {"jobs", [](const v1::Worker& worker) { return static_cast<double>(worker.job_ids_size()); }},
                 {"version", [](const v1::Worker& worker) { return worker.version(); }}};
  return *kFields;
}

// Reads all workers, in the order of --sort.
absl::StatusOr<std::vector<v1::Worker>> ReadWorkers(JobClient* client, const ListOptions& options) {
  absl::StatusOr<std::vector<v1::Worker>> workers = client->ListWorkers();
  if (!workers.ok() || options.sort.empty()) {
    return workers;
  }
  const SortOrder order = ParseSortOrder(options.sort);
  SortBuffer<v1::Worker> sorted(order.is_descending, /*limit=*/0);
  for (v1::Worker& worker : *workers) {
    SortValue value = SortValueOf(WorkerSortFields(), order, worker);
    sorted.Add(std::move(value), std::move(worker));
  }
  return sorted.Take();
}

// Returns those values of a worker for which --watch prints a new line when they change. Excludes values that change
// with time alone.
std::string StateToWatch(const v1::Worker& worker) {
  std::string state = absl::StrCat(v1::Worker::State_Name(worker.state()), " ", worker.job_ids_size(), " ",
                                   worker.version(), " ", worker.message());
  for (const v1::Device& device : worker.devices()) {
    absl::StrAppend(&state, " ", device.id(), device.unhealthy() ? "!" : "");
  }
  return state;
}

absl::StatusOr<ListReading> ReadOnce(const Session& session, JobClient* client, const ListOptions& options, int limit) {
  const absl::StatusOr<std::vector<v1::Worker>> workers = ReadWorkers(client, options);
  if (!workers.ok()) {
    return workers.status();
  }
  ListReading reading;
  reading.num_all = static_cast<int64_t>(workers->size());
  for (const v1::Worker& worker : *workers) {
    if (limit == 0 || static_cast<int>(reading.entries.size()) < limit) {
      reading.entries.push_back({worker.name(), StateToWatch(worker), TextOf(session, worker)});
    }
  }
  return reading;
}

int ListWorkers(Session* session, const ListOptions& options) {
  if (const absl::Status allowed = CheckListWatch(options.watch); !allowed.ok()) {
    return session->Fail(allowed);
  }
  if (options.watch.watch) {
    return WatchList(session, options.watch.interval, WorkerListHeadings(*session),
                     [&](JobClient* client, int limit) { return ReadOnce(*session, client, options, limit); });
  }
  return CallAndShow(
      session, [&](JobClient* client) { return ReadWorkers(client, options); },
      [&](const std::vector<v1::Worker>& workers) { PrintWorkers(*session, workers); });
}

}  // namespace

Command ListWorkersCommand() {
  const auto options = std::make_shared<ListOptions>();
  std::vector<Argument> arguments = ListWatchArguments(&options->watch);
  arguments.insert(arguments.begin(), SortOption(&options->sort, NamesOf(WorkerSortFields())));
  return {.name = "list",
          .alias = "ls",
          .help = "List workers",
          .examples = "  ampctl worker list -o wide\n  ampctl worker list --watch --sort jobs,desc",
          .formats = ListFormats(),
          .arguments = std::move(arguments),
          .run = [options](Session* session) { return ListWorkers(session, *options); }};
}

}  // namespace ampd::client
