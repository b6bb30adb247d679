#include <memory>
#include <string>

#include "absl/strings/str_cat.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job/job.h"
#include "client/render/job_text.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

// Returns as text an amount that a device needs or has. `amount` is a number of bytes, or a compute capability times
// ten.
std::string AmountText(const v1::DeviceVerdict& verdict, int64_t amount) {
  if (verdict.needed() == 0 && verdict.available() == 0) {
    return "-";
  }
  return verdict.reason() == v1::PendingReason::CAPABILITY_TOO_LOW ? absl::StrCat(amount / 10, ".", amount % 10)
                                                                   : FormatBytes(amount);
}

void ShowExplanation(const Session& session, const std::string& id, const v1::ExplainJobResponse& answer) {
  if (PrintStructured(session, answer)) {
    return;
  }
  const bool pending = answer.reason() != v1::PendingReason::NOT_PENDING &&
                       answer.reason() != v1::PendingReason::PENDING_REASON_UNSPECIFIED;
  WriteColoured(absl::StrCat(Printable(id), "  ", StateText(answer.state(), session.palette()),
                             pending ? "  " + v1::PendingReason::Code_Name(answer.reason()) : "", "\n",
                             Printable(answer.message()), "\n"));
  if (answer.jobs_ahead() > 0) {
    WriteFormatted("%d %s ahead of it\n", answer.jobs_ahead(), answer.jobs_ahead() == 1 ? "job is" : "jobs are");
  }
  std::vector<std::vector<std::string>> rows;
  for (const v1::DeviceVerdict& verdict : answer.devices()) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {Printable(verdict.worker()), Printable(verdict.device()), v1::PendingReason::Code_Name(verdict.reason())};
    if (session.wide()) {
      row.insert(row.end(), {AmountText(verdict, verdict.needed()), AmountText(verdict, verdict.available())});
    }
    row.push_back(Printable(verdict.message()));
  }
  if (!rows.empty()) {
    PrintTable(session,
               session.wide() ? std::vector<std::string>{"WORKER", "DEVICE", "REASON", "NEEDED", "AVAILABLE", "WHY"}
                              : std::vector<std::string>{"WORKER", "DEVICE", "REASON", "WHY"},
               rows);
  }
  if (!pending) {
    session.Note(absl::StrCat("explain is only for jobs that wait in the queue; for the history of this job: ",
                              session.Command("job events "), Printable(id),
                              "; for all details: ", session.Command("job show "), Printable(id)));
  }
  if (answer.num_devices() > answer.devices_size()) {
    session.Warn(absl::StrCat(answer.devices_size(), " of ", answer.num_devices(), " devices"));
  }
}

int Explain(Session* session, const std::string& text) {
  return CallForJob(
      session, text, [](JobClient* client, const std::string& id) { return client->ExplainJob(id); },
      [&](const std::string& id, const v1::ExplainJobResponse& answer) { ShowExplanation(*session, id, answer); });
}

}  // namespace

Command ExplainJobCommand() {
  const auto id = std::make_shared<std::string>();
  return {.name = "explain",
          .help = "Explain why a queued job waits: what each device lacks",
          .examples =
              "  ampctl job explain ID\n"
              "  ampctl job explain ID -o wide      also what the job needs and what each device has",
          .formats = AllFormatsBut({OutputFormat::kName}),
          .arguments = {JobId(id.get())},
          .run = [id](Session* session) { return Explain(session, *id); }};
}

}  // namespace ampd::client
