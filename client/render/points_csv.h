#pragma once

#include <string>
#include <vector>

#include "ampd/v1/job_service.pb.h"

// Metric points as CSV.
namespace ampd::client {

// Returns the names of all phases of the steps after the first.
std::vector<std::string> LaterPhases(const v1::ListMetricPointsResponse& points);

// The headings and rows of `job points -o csv`. Each step has a row, in which the columns eval_* are filled if there
// was an evaluation at this step. An evaluation at a step without a point has a row of its own, behind the steps of its
// segment. Each phase of a step after the first has two columns of its own.
std::vector<std::string> PointsCsvHeadings(const v1::ListMetricPointsResponse& points);
std::vector<std::vector<std::string>> PointsCsvRows(const v1::ListMetricPointsResponse& points);

}  // namespace ampd::client
