#include <memory>
#include <string>

#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job/job.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

int ShowJob(Session* session, const std::string& text) {
  return CallForJob(
      session, text, [](JobClient* client, const std::string& id) { return client->GetJob(id); },
      [&](const std::string& /*id*/, const v1::Job& job) { PrintJob(*session, job); });
}

}  // namespace

Command ShowJobCommand() {
  const auto id = std::make_shared<std::string>();
  return {.name = "show",
          .help = "Show everything about a job",
          .examples = "  ampctl job show ID\n  ampctl job show ID -o json | jq '.attempts[-1].outcome.finalMetrics'",
          .formats = AllFormats(),
          .arguments = {JobId(id.get())},
          .run = [id](Session* session) { return ShowJob(session, *id); }};
}

}  // namespace ampd::client
