#include <algorithm>
#include <cstdio>
#include <map>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
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

// Entry `index` of every column of numbers that has one.
template <typename Columns>
Columns EntryAt(const Columns& columns, int index) {
  Columns one;
  const Reflection& reflection = *columns.GetReflection();
  for (int i = 0; i < Columns::descriptor()->field_count(); ++i) {
    const FieldDescriptor* const field = Columns::descriptor()->field(i);
    if (!field->is_repeated() || index >= reflection.FieldSize(columns, field)) {
      continue;
    }
    switch (field->cpp_type()) {
      case FieldDescriptor::CPPTYPE_UINT64:
        reflection.AddUInt64(&one, field, reflection.GetRepeatedUInt64(columns, field, index));
        break;
      case FieldDescriptor::CPPTYPE_INT64:
        reflection.AddInt64(&one, field, reflection.GetRepeatedInt64(columns, field, index));
        break;
      case FieldDescriptor::CPPTYPE_FLOAT:
        reflection.AddFloat(&one, field, reflection.GetRepeatedFloat(columns, field, index));
        break;
      case FieldDescriptor::CPPTYPE_DOUBLE:
        reflection.AddDouble(&one, field, reflection.GetRepeatedDouble(columns, field, index));
        break;
      case FieldDescriptor::CPPTYPE_BOOL:
        reflection.AddBool(&one, field, reflection.GetRepeatedBool(columns, field, index));
        break;
      default:  // The phases.
        break;
    }
  }
  return one;
}

// The step with its phases.
v1::StepColumns StepAt(const v1::StepColumns& steps, int index) {
  v1::StepColumns one = EntryAt(steps, index);
  for (const v1::PhaseColumns& phase : steps.phases()) {
    *one.add_phases() = EntryAt(phase, index);
    one.mutable_phases()->rbegin()->set_name(phase.name());
  }
  return one;
}

// {"step":"3","loss":0.5,...}. Every column is a list of one number, so the text has no other brackets.
template <typename Columns>
std::string EntryJson(const Columns& columns, int index) {
  return absl::StrReplaceAll(ToJson(EntryAt(columns, index), false), {{"[", ""}, {"]", ""}});
}

// {"name":"generator","loss":0.5,...}
std::string PhaseJson(const v1::PhaseColumns& phase, int index) {
  v1::PhaseColumns name;
  name.set_name(phase.name());
  std::string text = ToJson(name, false);
  text.back() = ',';
  return text + EntryJson(phase, index).substr(1);
}

std::string StepJson(const v1::StepColumns& steps, int index) {
  std::string text = EntryJson(steps, index);
  if (!steps.phases().empty()) {
    text.pop_back();
    const auto phase = [index](std::string* out, const v1::PhaseColumns& columns) {
      out->append(PhaseJson(columns, index));
    };
    absl::StrAppend(&text, ",\"phases\":[", absl::StrJoin(steps.phases(), ",", phase), "]}");
  }
  return text;
}

// One line per step, {"attempt":1,"step":"3","loss":0.5,...}, then one per evaluation, {"attempt":1,"eval":{...}}.
void PrintPointLines(const v1::ListMetricPointsResponse::Segment& segment) {
  const std::string attempt = absl::StrCat("{\"attempt\":", segment.attempt(), ",");
  for (int i = 0; i < segment.steps().step_size(); ++i) {
    std::printf("%s%s\n", attempt.c_str(), StepJson(segment.steps(), i).substr(1).c_str());
  }
  for (const v1::EvalPoint& eval : segment.evals()) {
    std::printf("%s\"eval\":%s}\n", attempt.c_str(), ToJson(eval, false).c_str());
  }
}

// "skipped", or the phases that skipped if not all of the step's phases did.
std::string SkippedText(const v1::StepColumns& one) {
  std::vector<std::string> names;
  for (const v1::PhaseColumns& phase : one.phases()) {
    if (phase.skipped(0)) {
      names.push_back(Printable(phase.name()));
    }
  }
  const bool only_some = !names.empty() && static_cast<int>(names.size()) < one.phases_size();
  return !one.skipped(0) ? "" : only_some ? absl::StrJoin(names, ", ") : "skipped";
}

struct PointStyle {
  bool wide = false;
  std::vector<std::string> phases;  // Phases after the first, whose loss and norm are the step's.
};

std::vector<std::string> PointHeadings(const PointStyle& style) {
  std::vector<std::string> headings = {"ATTEMPT", "STEP", "LOSS", "GRAD NORM"};
  for (const std::string& phase : style.phases) {
    const std::string name = absl::AsciiStrToUpper(phase);
    headings.insert(headings.end(), {name + " LOSS", name + " NORM"});
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
  for (const std::string& name : style.phases) {
    const auto phase = std::find_if(one.phases().begin(), one.phases().end(),
                                    [&](const v1::PhaseColumns& columns) { return columns.name() == name; });
    const bool found = phase != one.phases().end();
    row.insert(row.end(), {found ? number(phase->loss()) : "-", found ? number(phase->grad_norm()) : "-"});
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

// The names of all phases after the first.
std::vector<std::string> LaterPhases(const v1::ListMetricPointsResponse& answer) {
  std::vector<std::string> names;
  for (const auto& segment : answer.segments()) {
    for (int i = 1; i < segment.steps().phases_size(); ++i) {
      const std::string name = Printable(segment.steps().phases(i).name());
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

void ShowPoints(const Session& session, const v1::ListMetricPointsResponse& answer) {
  if (session.options().output == OutputFormat::kJsonLines) {
    std::for_each(answer.segments().begin(), answer.segments().end(), PrintPointLines);
    return;
  }
  if (PrintStructured(session, answer)) {
    return;
  }
  const PointStyle style = {.wide = IsWide(session), .phases = LaterPhases(answer)};
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
