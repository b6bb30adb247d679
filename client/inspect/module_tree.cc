#include "client/inspect/module_tree.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "graph/exported/exported_ops.h"
#include "graph/exported/node_fate.h"
#include "graph/op_table.h"
#include "precision/table.h"

namespace ampd::client {
namespace {

using graph::NodeFate;

// The longest path of a module, longer than any in a real model. The parameters and ops of a module with a longer path
// are counted for the whole model.
constexpr size_t kMaxPathBytes = 256;
constexpr auto kMaxDepth = 64;

class ModuleTree {
 public:
  ModuleTree() : modules_(1) {}

  // Adds the numbers of parameters and ops to the module at `path` and to all modules that contain it.
  void Count(const std::string& path, int64_t num_parameters, int num_ops) {
    for (size_t index : Lineage(path)) {
      modules_[index].num_parameters += num_parameters;
      modules_[index].num_ops += num_ops;
    }
  }

  // Adds the modules to the file. Each module comes before the modules that it contains.
  void AddTo(const std::map<std::string, std::string>& types, v1::ModelFile* file) const {
    std::vector<size_t> left = {0};
    while (!left.empty()) {
      const Module& module = modules_[left.back()];
      left.pop_back();
      left.insert(left.end(), module.children.rbegin(), module.children.rend());
      v1::ModelModule& added = *file->add_modules();
      const auto type = types.find(module.path);
      added.set_path(module.path);
      added.set_type(type == types.end() ? "" : type->second);
      added.set_num_parameters(module.num_parameters);
      added.set_num_ops(module.num_ops);
    }
  }

 private:
  struct Module {
    std::string path;
    std::vector<size_t> children;
    int64_t num_parameters = 0;
    int num_ops = 0;
  };

  // Returns the indices of the modules on the path to the module at `path`: first the whole model, last the module
  // itself.
  std::vector<size_t> Lineage(const std::string& path) {
    std::vector<size_t> lineage = {0};
    if (path.empty() || path.size() > kMaxPathBytes || std::count(path.begin(), path.end(), '.') >= kMaxDepth) {
      return lineage;
    }
    for (size_t end = path.find('.');; end = path.find('.', end + 1)) {
      lineage.push_back(Find(lineage.back(), path.substr(0, end)));
      if (end == std::string::npos) {
        return lineage;
      }
    }
  }

  size_t Find(size_t parent, const std::string& path) {
    const auto [found, is_new] = by_path_.emplace(path, modules_.size());
    if (is_new) {
      modules_[parent].children.push_back(modules_.size());
      modules_.push_back({.path = path, .children = {}});
    }
    return found->second;
  }

  std::vector<Module> modules_;  // the first is the whole model
  std::map<std::string, size_t> by_path_;
};

// Returns the path of the module that a tensor belongs to: "layer1.0" for "layer1.0.weight".
std::string ModuleOf(const std::string& tensor) {
  const size_t dot = tensor.rfind('.');
  return dot == std::string::npos ? "" : tensor.substr(0, dot);
}

int64_t NumbersIn(const v1::ModelTensor& tensor) {
  int64_t numbers = 1;
  for (const int64_t size : tensor.shape()) {
    numbers *= size;
  }
  return numbers;
}

v1::ModelOp::Fate FateIn(const graph::ExportedProgram& program, const std::set<std::string>& counters,
                         const graph::ExportedNode& node) {
  switch (graph::FateOf(program, counters, node)) {
    case NodeFate::kRuns:
      return v1::ModelOp::RUNS;
    case NodeFate::kRefused:
      return v1::ModelOp::REFUSED;
    case NodeFate::kSkipped:
    case NodeFate::kPassed:
      break;
  }
  return v1::ModelOp::GONE;
}

using OpKey = std::pair<std::string, v1::ModelOp::Fate>;

std::map<OpKey, int> CountOps(const graph::ExportedProgram& program) {
  const std::set<std::string> counters = graph::CountersOf(program);
  std::map<OpKey, int> counts;
  for (const graph::ExportedNode& node : program.graph.nodes) {
    ++counts[{graph::OpOf(node), FateIn(program, counters, node)}];
  }
  return counts;
}

}  // namespace

void AddModules(const graph::ExportedModel& model, v1::ModelFile* file) {
  ModuleTree tree;
  for (const v1::ModelTensor& tensor : file->tensors()) {
    const bool counts = tensor.kind() == v1::ModelTensor::PARAMETER && tensor.role() != v1::ModelTensor::TIED;
    tree.Count(ModuleOf(tensor.name()), counts ? NumbersIn(tensor) : 0, 0);
  }
  const std::set<std::string> counters = graph::CountersOf(model.train);
  for (const graph::ExportedNode& node : model.train.graph.nodes) {
    tree.Count(node.module_path, 0, FateIn(model.train, counters, node) == v1::ModelOp::GONE ? 0 : 1);
  }
  tree.AddTo(model.train.graph.module_types, file);
}

void AddOps(const graph::ExportedModel& model, v1::ModelFile* file) {
  std::map<OpKey, std::pair<int, int>> counts;
  for (const auto& [key, count] : CountOps(model.train)) {
    counts[key].first = count;
  }
  if (model.eval.has_value()) {
    for (const auto& [key, count] : CountOps(*model.eval)) {
      counts[key].second = count;
    }
  }
  for (const auto& [key, count] : counts) {
    v1::ModelOp& op = *file->add_ops();
    op.set_op(key.first);
    op.set_fate(key.second);
    if (key.second == v1::ModelOp::RUNS) {
      const graph::OpRow* const row = graph::FindOp(key.first);
      op.set_policy(precision::ToMessage(row == nullptr ? graph::OpClass::kAsInput : row->op_class));
    }
    op.set_num_train(count.first);
    op.set_num_eval(count.second);
  }
}

}  // namespace ampd::client
