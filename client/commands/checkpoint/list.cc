#include <memory>
#include <string>
#include <vector>

#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/checkpoint/checkpoint.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

int ListCheckpoints(Session* session, const std::string& text) {
  return CallForJob(
      session, text, [](JobClient* client, const std::string& id) { return client->ListCheckpoints(id); },
      [&](const std::string& /*id*/, const std::vector<v1::Checkpoint>& checkpoints) {
        PrintCheckpoints(*session, checkpoints);
      });
}

}  // namespace

Command ListCheckpointsCommand() {
  const auto id = std::make_shared<std::string>();
  return {.name = "list",
          .alias = "ls",
          .help = "List the checkpoints of a job, oldest first",
          .formats = ListFormats(),
          .arguments = {JobId(id.get())},
          .run = [id](Session* session) { return ListCheckpoints(session, *id); }};
}

}  // namespace ampd::client
