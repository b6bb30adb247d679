#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/commands/call.h"
#include "client/commands/commands.h"
#include "client/render/job_text.h"
#include "client/render/table.h"
#include "client/render/watch_screen.h"
#include "client/terminal/output.h"

namespace ampd::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;
using Rows = std::vector<std::vector<std::string>>;

void PrintTable(const Session& session, const std::vector<std::string>& headings, const Rows& rows) {
  std::fputs(RenderTable(headings, rows, !session.options().no_headers).c_str(), stdout);
}

bool IsWide(const Session& session) { return session.options().output == OutputFormat::kWide; }

std::string TimeText(int64_t unix_micros) {
  return absl::FormatTime("%Y-%m-%d %H:%M:%S", absl::FromUnixMicros(unix_micros), absl::LocalTimeZone());
}

std::string NumberOrDash(int64_t number) { return number == 0 ? "-" : absl::StrCat(number); }

// An amount that a device needs or has: bytes, or a compute capability times ten.
std::string AmountText(const v1::DeviceVerdict& verdict, int64_t amount) {
  if (verdict.needed() == 0 && verdict.available() == 0) {
    return "-";
  }
  return verdict.reason() == v1::CAPABILITY_TOO_LOW ? absl::StrCat(amount / 10, ".", amount % 10) : FormatBytes(amount);
}

void ShowExplanation(const Session& session, const std::string& id, const v1::ExplainJobResponse& answer) {
  if (PrintStructured(session, answer)) {
    return;
  }
  const bool pending = answer.reason() != v1::NOT_PENDING && answer.reason() != v1::PENDING_REASON_UNSPECIFIED;
  std::printf("%s  %s%s\n%s\n", id.c_str(), StateText(answer.state(), session.palette()).c_str(),
              pending ? ("  " + v1::PendingReason_Name(answer.reason())).c_str() : "",
              Printable(answer.message()).c_str());
  if (answer.jobs_ahead() > 0) {
    std::printf("%d %s ahead of it\n", answer.jobs_ahead(), answer.jobs_ahead() == 1 ? "job is" : "jobs are");
  }
  Rows rows;
  for (const v1::DeviceVerdict& verdict : answer.devices()) {
    std::vector<std::string>& row = rows.emplace_back();
    row = {Printable(verdict.worker()), Printable(verdict.device()), v1::PendingReason_Name(verdict.reason())};
    if (IsWide(session)) {
      row.insert(row.end(), {AmountText(verdict, verdict.needed()), AmountText(verdict, verdict.available())});
    }
    row.push_back(Printable(verdict.message()));
  }
  if (!rows.empty()) {
    PrintTable(session,
               IsWide(session) ? std::vector<std::string>{"WORKER", "DEVICE", "REASON", "NEEDED", "AVAILABLE", "WHY"}
                               : std::vector<std::string>{"WORKER", "DEVICE", "REASON", "WHY"},
               rows);
  }
  if (answer.num_devices() > answer.devices_size()) {
    session.Warn(absl::StrCat(answer.devices_size(), " of ", answer.num_devices(), " devices"));
  }
}

// Entry `index` of every column that has one.
v1::StepColumns StepAt(const v1::StepColumns& steps, int index) {
  v1::StepColumns one;
  const Reflection& reflection = *steps.GetReflection();
  for (int i = 0; i < v1::StepColumns::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = v1::StepColumns::descriptor()->field(i);
    if (index >= reflection.FieldSize(steps, field)) {
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&one, field, reflection.GetRepeatedUInt64(steps, field, index));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&one, field, reflection.GetRepeatedInt64(steps, field, index));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&one, field, reflection.GetRepeatedFloat(steps, field, index));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&one, field, reflection.GetRepeatedDouble(steps, field, index));
        break;
      default:
        reflection.AddBool(&one, field, reflection.GetRepeatedBool(steps, field, index));
    }
  }
  return one;
}

// One line per step, {"attempt":1,"step":"3","loss":0.5,...}, then one per evaluation, {"attempt":1,"eval":{...}}.
void PrintPointLines(const v1::ListMetricPointsResponse::Segment& segment) {
  const std::string attempt = absl::StrCat("{\"attempt\":", segment.attempt(), ",");
  for (int i = 0; i < segment.steps().step_size(); ++i) {
    // Every column is a list of one number, so the line has no other brackets.
    const std::string columns = absl::StrReplaceAll(ToJson(StepAt(segment.steps(), i), false), {{"[", ""}, {"]", ""}});
    std::printf("%s%s\n", attempt.c_str(), columns.substr(1).c_str());
  }
  for (const v1::EvalPoint& eval : segment.evals()) {
    std::printf("%s\"eval\":%s}\n", attempt.c_str(), ToJson(eval, false).c_str());
  }
}

// "skipped", or for a GAN the network of which alone the step was skipped.
std::string SkippedText(const v1::StepColumns& one) {
  const bool generator = !one.generator_skipped().empty() && one.generator_skipped(0);
  const bool discriminator = !one.discriminator_skipped().empty() && one.discriminator_skipped(0);
  return !one.skipped(0) ? "" : generator == discriminator ? "skipped" : generator ? "generator" : "discriminator";
}

struct PointStyle {
  bool wide = false;
  bool gan = false;  // shows the points of both networks side by side
};

std::vector<std::string> PointHeadings(const PointStyle& style) {
  std::vector<std::string> headings = {"ATTEMPT", "STEP", "LOSS", "GRAD NORM"};
  if (style.gan) {
    headings.insert(headings.end(), {"GENERATOR LOSS", "GENERATOR NORM"});
  }
  headings.insert(headings.end(), {"SCALE", "SKIPPED"});
  if (style.wide) {
    headings.insert(headings.end(), {"LEARNING RATE", "SAMPLES/S", "DATA WAIT", "MEMORY", "PEAK MEMORY", "TIME"});
  }
  return headings;
}

std::vector<std::string> PointRow(int attempt, const v1::StepColumns& one, const PointStyle& style) {
  const auto number = [](const auto& column) { return column.empty() ? "-" : FormatNumber(column.Get(0)); };
  std::vector<std::string> row = {absl::StrCat(attempt), absl::StrCat(one.step(0)), FormatNumber(one.loss(0)),
                                  FormatNumber(one.grad_norm(0))};
  if (style.gan) {
    row.insert(row.end(), {number(one.generator_loss()), number(one.generator_grad_norm())});
  }
  row.insert(row.end(), {FormatNumber(one.loss_scale(0)), SkippedText(one)});
  const auto bytes = [](const auto& column) { return column.empty() ? "-" : FormatBytes(column.Get(0)); };
  if (style.wide) {
    row.insert(row.end(), {number(one.learning_rate()), number(one.samples_per_second()),
                           one.data_wait_seconds().empty() ? "-" : FormatNumber(one.data_wait_seconds(0)) + "s",
                           bytes(one.memory_allocated_bytes()), bytes(one.memory_peak_bytes()),
                           one.time_unix_micros().empty() ? "-" : TimeText(one.time_unix_micros(0))});
  }
  return row;
}

void ShowPoints(const Session& session, const v1::ListMetricPointsResponse& answer) {
  if (session.options().output == OutputFormat::kJsonLines) {
    std::for_each(answer.segments().begin(), answer.segments().end(), PrintPointLines);
    return;
  }
  if (PrintStructured(session, answer)) {
    return;
  }
  const bool gan = std::any_of(answer.segments().begin(), answer.segments().end(),
                               [](const auto& segment) { return segment.steps().generator_loss_size() > 0; });
  const PointStyle style = {.wide = IsWide(session), .gan = gan};
  Rows rows;
  for (const auto& segment : answer.segments()) {
    const v1::StepColumns& steps = segment.steps();
    const int size = std::min(
        {steps.step_size(), steps.loss_size(), steps.loss_scale_size(), steps.skipped_size(), steps.grad_norm_size()});
    for (int i = 0; i < size; ++i) {
      rows.push_back(PointRow(segment.attempt(), StepAt(steps, i), style));
    }
  }
  PrintTable(session, PointHeadings(style), rows);
}

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
  Rows rows;
  for (const v1::Event& event : answer.events()) {
    const std::string time = TimeText(event.time_unix_micros());
    if (!IsWide(session)) {
      std::printf("%s  %s\n", time.c_str(), RenderEvent(event).c_str());
      continue;
    }
    const std::map<std::string, std::string> attributes(event.attributes().begin(), event.attributes().end());
    rows.push_back({time, absl::StrCat(event.sequence()), NumberOrDash(event.attempt()), NumberOrDash(event.step()),
                    event.reason() == v1::REASON_UNSPECIFIED ? "-" : v1::Reason_Name(event.reason()),
                    attributes.empty() ? "-" : Printable(absl::StrJoin(attributes, " ", absl::PairFormatter("="))),
                    RenderEvent(event)});
  }
  if (IsWide(session)) {
    PrintTable(session, {"TIME", "SEQUENCE", "ATTEMPT", "STEP", "REASON", "ATTRIBUTES", "EVENT"}, rows);
  }
}

}  // namespace

int Explain(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ExplainJob(id); },
      [&](const v1::ExplainJobResponse& answer) { ShowExplanation(*session, id, answer); });
}

int Points(Session* session, const std::string& id, int downsample_to) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListMetricPoints(id, downsample_to); },
      [&](const v1::ListMetricPointsResponse& answer) { ShowPoints(*session, answer); });
}

int Events(Session* session, const std::string& id) {
  return CallAndShow(
      session, [&](JobClient* client) { return client->ListEvents(id); },
      [&](const v1::ListEventsResponse& answer) { ShowEvents(*session, answer); });
}

}  // namespace ampd::client
