#include <memory>
#include <string>

#include "client/commands/worker/change_worker.h"
#include "client/commands/worker/worker.h"
#include "client/render/format.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

int RemoveWorker(Session* session, const std::string& worker) {
  const auto client = session->Client();
  const absl::Status removed = client.ok() ? (*client)->RemoveWorker(worker) : client.status();
  if (!removed.ok()) {
    return session->Fail(client.ok() ? WithMeantWorker(*client, removed, worker) : removed);
  }
  if (session->names_only()) {
    WriteFormatted("%s\n", Printable(worker).c_str());
  } else if (!PrintStructured(*session, PlainFields{{"name", worker}, {"removed", true}})) {
    WriteFormatted("%s  removed\n", Printable(worker).c_str());
  }
  return kExitOk;
}

}  // namespace

Command RemoveWorkerCommand() {
  const auto name = std::make_shared<std::string>();
  return {.name = "remove",
          .help =
              "Remove a lost worker (one that no longer answers) from the list. It is listed again if it reconnects. A "
              "worker that still answers is not removed",
          .formats = AllFormatsBut({OutputFormat::kWide}),
          .arguments = {WorkerName(name.get())},
          .run = [name](Session* session) { return RemoveWorker(session, *name); }};
}

}  // namespace ampd::client
