#include "worker/amp/program_facts.h"

#include <algorithm>
#include <map>
#include <set>

#include "graph/modes.h"
#include "graph/op_table.h"

namespace ampd::amp {
namespace {

// Whether the node runs in training mode. If its op has no training argument, the answer is always yes. If the op has
// one, but the node omits it, the answer is no.
bool IsTraining(const graph::OpRow& row, const graph::Node& node) {
  return row.training_argument.empty() || graph::Trains(row, node);
}

std::string ParentPath(const std::string& parameter) {
  const size_t dot = parameter.rfind('.');
  return dot == std::string::npos ? std::string() : parameter.substr(0, dot);
}

}  // namespace

std::vector<std::string> WrittenBuffers(const graph::Graph& program) {
  std::set<std::string> names;
  for (const graph::Node& node : program.nodes()) {
    const graph::OpRow* row = graph::FindOp(node.op);
    if (row == nullptr || !IsTraining(*row, node)) {
      continue;
    }
    for (const std::string_view argument : row->writes) {
      if (const auto value = node.ValueOf(argument); value.has_value()) {
        names.insert(program.value(*value).name);
      }
    }
  }
  return {names.begin(), names.end()};
}

std::map<std::string, int64_t> BatchesCounted(const graph::Graph& program) {
  std::map<graph::ValueId, int64_t> num_writers;
  for (const graph::Node& node : program.nodes()) {
    const graph::OpRow* row = graph::FindOp(node.op);
    const auto mean = node.ValueOf("running_mean");
    if (row != nullptr && mean.has_value() && IsTraining(*row, node)) {
      ++num_writers[*mean];
    }
  }
  std::map<std::string, int64_t> counted;
  for (const graph::BatchCounter& counter : program.batch_counters()) {
    if (const auto found = num_writers.find(counter.running_mean); found != num_writers.end()) {
      counted[counter.name] = found->second;
    }
  }
  return counted;
}

bool IsRandom(const graph::Graph& program) {
  return std::any_of(program.nodes().begin(), program.nodes().end(), graph::DrawsRandomNumbers);
}

std::vector<ParameterReader> BackwardOrder(const graph::Graph& program) {
  std::map<graph::ValueId, int> last_reader;
  for (int i = 0; i < static_cast<int>(program.nodes().size()); ++i) {
    for (const graph::ValueId use : program.nodes()[static_cast<size_t>(i)].Uses()) {
      last_reader[use] = i;
    }
  }
  std::vector<std::pair<int, ParameterReader>> placed;
  for (const graph::State& parameter : program.parameters()) {
    const auto found = last_reader.find(parameter.value);
    const int place = found == last_reader.end() ? -1 : found->second;
    const std::string path = place < 0 ? "" : program.nodes()[static_cast<size_t>(place)].module_path;
    placed.push_back({place, {parameter.name, path.empty() ? ParentPath(parameter.name) : path}});
  }
  std::stable_sort(placed.begin(), placed.end(), [](const auto& a, const auto& b) { return a.first > b.first; });
  std::vector<ParameterReader> order;
  for (auto& [place, reader] : placed) {
    order.push_back(std::move(reader));
  }
  return order;
}

}  // namespace ampd::amp
