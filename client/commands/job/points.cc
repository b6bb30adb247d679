#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/checks.h"
#include "client/commands/job/job.h"
#include "client/render/format.h"
#include "client/render/points_csv.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

using google::protobuf::FieldDescriptor;
using google::protobuf::Reflection;

struct PointsOptions {
  std::string id;
  int downsample_to = 0;  // number of points to which the server reduces the curves; 0: all points
};

// Returns the columns with only their entry at `index`. Omits a column that has no such entry.
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
      default:  // StepAt adds the phases.
        break;
    }
  }
  return one;
}

// Returns the columns with only the step at `index` and its phases.
v1::StepColumns StepAt(const v1::StepColumns& steps, int index) {
  v1::StepColumns one = EntryAt(steps, index);
  for (const v1::PhaseColumns& phase : steps.phases()) {
    *one.add_phases() = EntryAt(phase, index);
    one.mutable_phases()->rbegin()->set_name(phase.name());
  }
  return one;
}

// Returns the entry at `index` as JSON: {"step":"3","loss":0.5,...}. Each column is first written as a list of one
// number. Then all brackets are removed, because no other part of the text has brackets.
template <typename Columns>
std::string EntryJson(const Columns& columns, int index) {
  return absl::StrReplaceAll(ToJson(EntryAt(columns, index), false), {{"[", ""}, {"]", ""}});
}

// Returns a phase's entry at `index` as JSON: {"name":"generator","loss":0.5,...}
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

// Prints a line per step, {"attempt":1,"step":"3","loss":0.5,...}, and then a line per evaluation,
// {"attempt":1,"eval":{...}}.
void PrintPointLines(const v1::ListMetricPointsResponse::Segment& segment) {
  const std::string attempt = absl::StrCat("{\"attempt\":", segment.attempt(), ",");
  for (int i = 0; i < segment.steps().step_size(); ++i) {
    WriteText(absl::StrCat(attempt, StepJson(segment.steps(), i).substr(1), "\n"));
  }
  for (const v1::EvalPoint& eval : segment.evals()) {
    WriteText(absl::StrCat(attempt, "\"eval\":", ToJson(eval, false), "}\n"));
  }
}

// Returns "skipped" if the whole step was skipped, the names of the skipped phases if only some were, and "" if the
// step was not skipped.
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
  std::vector<std::string> phases;  // Phases after the first. The first phase's loss and norm are the step's own.
};

std::vector<std::string> PointHeadings(const PointStyle& style) {
  std::vector<std::string> headings = {"ATTEMPT", "STEP", "LOSS", "GRAD NORM"};
  for (const std::string& phase : style.phases) {
    const std::string name = absl::AsciiStrToUpper(Printable(phase));
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
    row.insert(
        row.end(),
        {number(one.learning_rate()), number(one.samples_per_second()),
         one.data_wait_seconds().empty() ? "-" : FormatNumber(one.data_wait_seconds(0)) + "s",
         bytes(one.memory_allocated_bytes()), bytes(one.memory_peak_bytes()),
         one.time_unix_micros().empty() ? "-" : FormatTimestamp(one.time_unix_micros(0), absl::LocalTimeZone())});
  }
  return row;
}

void ShowPoints(const Session& session, const v1::ListMetricPointsResponse& answer) {
  if (session.options().output == OutputFormat::kCsv) {
    return PrintCsv(session, PointsCsvHeadings(answer), PointsCsvRows(answer));
  }
  if (session.options().output == OutputFormat::kJsonLines) {
    std::for_each(answer.segments().begin(), answer.segments().end(), PrintPointLines);
    return;
  }
  if (PrintStructured(session, answer)) {
    return;
  }
  const PointStyle style = {.wide = session.wide(), .phases = LaterPhases(answer)};
  std::vector<std::vector<std::string>> rows;
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

int Points(Session* session, const PointsOptions& options) {
  return CallForJob(
      session, options.id,
      [&](JobClient* client, const std::string& id) { return client->ListMetricPoints(id, options.downsample_to); },
      [&](const std::string& /*id*/, const v1::ListMetricPointsResponse& answer) { ShowPoints(*session, answer); });
}

}  // namespace

Command PointsOfJobCommand() {
  const auto options = std::make_shared<PointsOptions>();
  return {.name = "points",
          .help = "List a job's metrics (loss, learning rate, ...) by step",
          .examples = "  ampctl job points ID --downsample-to 500\n  ampctl job points ID -o csv > points.csv",
          .formats = ListFormatsBut({OutputFormat::kName}),
          .arguments = {JobId(&options->id),
                        {.name = "--downsample-to",
                         .value = &options->downsample_to,
                         .text = "N",
                         .help = "Reduce the list to at most N points (default 0 = all)",
                         .check = CheckCount}},
          .run = [options](Session* session) { return Points(session, *options); }};
}

}  // namespace ampd::client
