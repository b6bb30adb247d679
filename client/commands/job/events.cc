#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job/job.h"
#include "client/render/format.h"
#include "client/render/watch_screen.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

std::string NumberOrDash(int64_t number) { return number == 0 ? "-" : absl::StrCat(number); }

void ShowEvents(const Session& session, const v1::ListEventsResponse& answer) {
  if (session.options().output == OutputFormat::kJsonLines) {
    for (const v1::Event& event : answer.events()) {
      std::printf("%s\n", ToJson(event, false).c_str());
    }
    return;
  }
  if (PrintStructured(session, answer)) {
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::Event& event : answer.events()) {
    const std::string time = FormatTimestamp(event.time_unix_micros(), absl::LocalTimeZone());
    if (!session.wide()) {
      std::printf("%s  %s\n", time.c_str(), RenderEvent(event).c_str());
      continue;
    }
    const std::map<std::string, std::string> attributes(event.attributes().begin(), event.attributes().end());
    rows.push_back({time, absl::StrCat(event.sequence()), NumberOrDash(event.attempt()), NumberOrDash(event.step()),
                    event.reason() == v1::REASON_UNSPECIFIED ? "-" : v1::Reason_Name(event.reason()),
                    attributes.empty() ? "-" : Printable(absl::StrJoin(attributes, " ", absl::PairFormatter("="))),
                    RenderEvent(event)});
  }
  if (session.wide()) {
    PrintTable(session, {"TIME", "SEQUENCE", "ATTEMPT", "STEP", "REASON", "ATTRIBUTES", "EVENT"}, rows);
  }
}

int Events(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListEvents(id); },
      [&](const v1::ListEventsResponse& answer) { ShowEvents(*session, answer); });
}
}  // namespace

Command EventsOfJobCommand() {
  const auto id = std::make_shared<std::string>();
  return {.name = "events",
          .help = "List the events of a job",
          .formats = AllFormatsBut({OutputFormat::kName}),
          .arguments = {JobId(id.get())},
          .run = [id](Session* session) { return Events(session, *id); }};
}

}  // namespace ampd::client
