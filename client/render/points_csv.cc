#include "client/render/points_csv.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <type_traits>

#include "absl/strings/str_cat.h"
#include "client/render/csv.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

using Cells = std::vector<std::string>;
using Segment = v1::ListMetricPointsResponse::Segment;

// Returns the number at `index` of a column; "" if the column has no such number.
template <typename Column>
std::string NumberAt(const Column& column, int index) {
  if (index >= column.size()) {
    return "";
  }
  if constexpr (std::is_floating_point_v<typename Column::value_type>) {
    return CsvNumber(column.Get(index));
  } else {
    return absl::StrCat(column.Get(index));
  }
}

// Returns the number at `index` of a column; "" if the column has no such number or NaN, which means not measured.
std::string MeasuredAt(const google::protobuf::RepeatedField<float>& column, int index) {
  return index >= column.size() || std::isnan(column.Get(index)) ? "" : CsvNumber(column.Get(index));
}

std::string FlagAt(const google::protobuf::RepeatedField<bool>& column, int index) {
  return index >= column.size() ? "" : column.Get(index) ? "true" : "false";
}

void AppendPhases(const v1::StepColumns& steps, int index, const std::vector<std::string>& phases, Cells* row) {
  for (const std::string& name : phases) {
    const auto phase = std::find_if(steps.phases().begin(), steps.phases().end(),
                                    [&](const v1::PhaseColumns& columns) { return columns.name() == name; });
    const bool found = phase != steps.phases().end();
    row->insert(row->end(),
                {found ? NumberAt(phase->loss(), index) : "", found ? NumberAt(phase->grad_norm(), index) : ""});
  }
}

void AppendEval(const v1::EvalPoint* eval, Cells* row) {
  const auto number = [](bool is_set, double value) { return is_set ? CsvNumber(value) : ""; };
  if (eval == nullptr) {
    row->insert(row->end(), 5, "");
    return;
  }
  row->insert(row->end(), {CsvNumber(eval->loss()), number(eval->has_accuracy(), eval->accuracy()),
                           number(eval->has_perplexity(), eval->perplexity()), number(eval->has_f1(), eval->f1()),
                           number(eval->has_top5_accuracy(), eval->top5_accuracy())});
}

// Appends the numbers that not every step has, such as the power. A number that the step does not have gives "".
void AppendMeasured(const v1::StepColumns& steps, int index, Cells* row) {
  row->insert(row->end(),
              {MeasuredAt(steps.flops_per_second(), index), MeasuredAt(steps.mfu(), index),
               MeasuredAt(steps.power_watts(), index), MeasuredAt(steps.device_utilization(), index),
               MeasuredAt(steps.memory_reserved_bytes(), index), MeasuredAt(steps.allocation_retries(), index)});
}

Cells StepRow(const Segment& segment, int index, const std::vector<std::string>& phases) {
  const v1::StepColumns& steps = segment.steps();
  Cells row = {absl::StrCat(segment.attempt()), NumberAt(steps.step(), index), NumberAt(steps.loss(), index),
               NumberAt(steps.grad_norm(), index)};
  AppendPhases(steps, index, phases, &row);
  row.insert(row.end(), {NumberAt(steps.loss_scale(), index), FlagAt(steps.skipped(), index),
                         NumberAt(steps.learning_rate(), index), NumberAt(steps.samples_per_second(), index),
                         NumberAt(steps.data_wait_seconds(), index), NumberAt(steps.memory_allocated_bytes(), index),
                         NumberAt(steps.memory_peak_bytes(), index),
                         index < steps.time_unix_micros_size() ? CsvTime(steps.time_unix_micros(index)) : ""});
  return row;
}

// Returns the row of an evaluation at a step that has no row.
Cells EvalRow(const Segment& segment, const v1::EvalPoint& eval, const std::vector<std::string>& phases) {
  Cells row = {absl::StrCat(segment.attempt()), absl::StrCat(eval.step()), "", ""};
  row.resize(row.size() + 2 * phases.size() + 7);
  row.push_back(eval.time_unix_micros() > 0 ? CsvTime(eval.time_unix_micros()) : "");
  AppendEval(&eval, &row);
  AppendMeasured(v1::StepColumns(), 0, &row);  // An evaluation has none of these numbers.
  return row;
}

}  // namespace

std::vector<std::string> LaterPhases(const v1::ListMetricPointsResponse& points) {
  std::vector<std::string> names;
  for (const Segment& segment : points.segments()) {
    for (int i = 1; i < segment.steps().phases_size(); ++i) {
      const std::string& name = segment.steps().phases(i).name();
      if (std::find(names.begin(), names.end(), name) == names.end()) {
        names.push_back(name);
      }
    }
  }
  return names;
}

Cells PointsCsvHeadings(const v1::ListMetricPointsResponse& points) {
  Cells headings = {"attempt", "step", "loss", "grad_norm"};
  for (const std::string& phase : LaterPhases(points)) {
    headings.insert(headings.end(), {Printable(phase) + "_loss", Printable(phase) + "_grad_norm"});
  }
  headings.insert(headings.end(), {"loss_scale", "skipped", "learning_rate", "samples_per_second", "data_wait_seconds",
                                   "memory_allocated_bytes", "memory_peak_bytes", "time", "eval_loss", "eval_accuracy",
                                   "eval_perplexity", "eval_f1", "eval_top5_accuracy", "flops_per_second", "mfu",
                                   "power_watts", "device_utilization", "memory_reserved_bytes", "allocation_retries"});
  return headings;
}

std::vector<Cells> PointsCsvRows(const v1::ListMetricPointsResponse& points) {
  const std::vector<std::string> phases = LaterPhases(points);
  std::vector<Cells> rows;
  for (const Segment& segment : points.segments()) {
    std::map<int64_t, const v1::EvalPoint*> evals;
    for (const v1::EvalPoint& eval : segment.evals()) {
      evals[eval.step()] = &eval;
    }
    for (int i = 0; i < segment.steps().step_size(); ++i) {
      const auto eval = evals.find(segment.steps().step(i));
      rows.push_back(StepRow(segment, i, phases));
      AppendEval(eval == evals.end() ? nullptr : eval->second, &rows.back());
      AppendMeasured(segment.steps(), i, &rows.back());
      if (eval != evals.end()) {
        evals.erase(eval);
      }
    }
    for (const auto& [step, eval] : evals) {
      rows.push_back(EvalRow(segment, *eval, phases));
    }
  }
  return rows;
}

}  // namespace ampd::client
