#include <map>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job/job.h"
#include "client/render/csv.h"
#include "client/render/enum_text.h"
#include "client/render/format.h"
#include "client/render/watch_screen.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

std::string NumberOrDash(int64_t number) { return number == 0 ? "-" : absl::StrCat(number); }

std::string AttributesText(const v1::Event& event) {
  const std::map<std::string, std::string> attributes(event.attributes().begin(), event.attributes().end());
  return Printable(absl::StrJoin(attributes, " ", absl::PairFormatter("=")));
}

void PrintEventsAsCsv(const Session& session, const v1::ListEventsResponse& answer) {
  const auto unless_zero = [](int64_t number) { return number == 0 ? "" : absl::StrCat(number); };
  std::vector<Cells> rows;
  for (const v1::Event& event : answer.events()) {
    const bool has_reason = event.reason() != v1::Reason::REASON_UNSPECIFIED;
    rows.push_back({CsvTime(event.time_unix_micros()), absl::StrCat(event.sequence()), unless_zero(event.attempt()),
                    unless_zero(event.step()), EnumText(event.kind()), has_reason ? EnumText(event.reason()) : "",
                    AttributesText(event), RenderEvent(event)});
  }
  PrintCsv(session, {"time", "sequence", "attempt", "step", "kind", "reason", "attributes", "event"}, rows);
}

void ShowEvents(const Session& session, const v1::ListEventsResponse& answer) {
  if (session.options().output == OutputFormat::kJsonLines) {
    for (const v1::Event& event : answer.events()) {
      WriteText(ToJson(event, false) + "\n");
    }
    return;
  }
  if (PrintStructured(session, answer)) {
    return;
  }
  if (session.options().output == OutputFormat::kCsv) {
    return PrintEventsAsCsv(session, answer);
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::Event& event : answer.events()) {
    const std::string time = FormatTimestamp(event.time_unix_micros(), absl::LocalTimeZone());
    if (!session.wide()) {
      WriteFormatted("%s  %s\n", time.c_str(), RenderEvent(event).c_str());
      continue;
    }
    const std::string attributes = AttributesText(event);
    rows.push_back({time, absl::StrCat(event.sequence()), NumberOrDash(event.attempt()), NumberOrDash(event.step()),
                    event.reason() == v1::Reason::REASON_UNSPECIFIED ? "-" : EnumText(event.reason()),
                    attributes.empty() ? "-" : attributes, RenderEvent(event)});
  }
  if (session.wide()) {
    PrintTable(session, {"TIME", "SEQUENCE", "ATTEMPT", "STEP", "REASON", "ATTRIBUTES", "EVENT"}, rows);
  }
}

int Events(Session* session, const std::string& text) {
  return CallForJob(
      session, text, [](JobClient* client, const std::string& id) { return client->ListEvents(id); },
      [&](const std::string& /*id*/, const v1::ListEventsResponse& answer) { ShowEvents(*session, answer); });
}

}  // namespace

Command EventsOfJobCommand() {
  const auto id = std::make_shared<std::string>();
  return {.name = "events",
          .help = "List the events of a job: changes of its state, checkpoints, warnings",
          .formats = ListFormatsBut({OutputFormat::kName}),
          .arguments = {JobId(id.get())},
          .run = [id](Session* session) { return Events(session, *id); }};
}

}  // namespace ampd::client
