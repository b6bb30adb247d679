#pragma once

#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"

// Metric points as CSV.
namespace ampd::client {

// Returns the names of all phases of the steps, except the first phase.
std::vector<std::string> LaterPhases(const v1::ListMetricPointsResponse& points);

// The headings and rows of `job points -o csv`. Each step has a row. If there was an evaluation at this step, the row's
// columns eval_* are filled. If the points lack the step of an evaluation, the evaluation has a row of its own, after
// the steps of its segment. Each phase but the first adds two columns.
std::vector<std::string> PointsCsvHeadings(const v1::ListMetricPointsResponse& points);
std::vector<std::vector<std::string>> PointsCsvRows(const v1::ListMetricPointsResponse& points);

}  // namespace ampd::client
