#include "graph/graph.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "base/status_macros.h"

namespace ampd::graph {
namespace {

absl::Status Broken(std::string_view what) {
  return Error(absl::StatusCode::kInternal, "BROKEN_GRAPH", std::string(what));
}

}  // namespace

const Operand* Node::Find(std::string_view argument) const {
  for (const Argument& a : arguments) {
    if (a.name == argument) {
      return &a.operand;
    }
  }
  return nullptr;
}

void Node::Set(std::string_view argument, Operand operand) {
  for (Argument& a : arguments) {
    if (a.name == argument) {
      a.operand = std::move(operand);
      return;
    }
  }
  arguments.push_back({std::string(argument), std::move(operand)});
}

std::optional<ValueId> Node::ValueOf(std::string_view argument) const {
  const Operand* operand = Find(argument);
  const ValueId* value = operand == nullptr ? nullptr : std::get_if<ValueId>(operand);
  return value == nullptr ? std::nullopt : std::optional(*value);
}

std::vector<ValueId> Node::Uses() const {
  std::vector<ValueId> uses;
  for (const Argument& argument : arguments) {
    if (const auto* value = std::get_if<ValueId>(&argument.operand)) {
      uses.push_back(*value);
    } else if (const auto* list = std::get_if<std::vector<std::optional<ValueId>>>(&argument.operand)) {
      for (const auto& entry : *list) {
        if (entry.has_value()) {
          uses.push_back(*entry);
        }
      }
    }
  }
  return uses;
}

std::string Node::Where() const {
  return absl::StrCat(op, module_path.empty() ? "" : " of ", module_path,
                      source.empty() ? "" : absl::StrCat(" (", source, ")"));
}

Initializer Initializer::Constant(double value) { return {.kind = Kind::kConstant, .value = value}; }
Initializer Initializer::Uniform(double bound) { return {.kind = Kind::kUniform, .bound = bound}; }
Initializer Initializer::Normal(double deviation) { return {.kind = Kind::kNormal, .bound = deviation}; }
Initializer Initializer::KaimingUniform(int64_t fan_in) { return {.kind = Kind::kKaimingUniform, .fan_in = fan_in}; }
Initializer Initializer::Bias(int64_t fan_in) { return Uniform(1.0 / std::sqrt(static_cast<double>(fan_in))); }

double Initializer::UniformBound() const {
  if (kind == Kind::kUniform) {
    return bound;
  }
  // Computes the bound in the same steps as torch.nn.init.kaiming_uniform_, so that the results agree to the last bit.
  const double a = std::sqrt(5.0);
  const double gain = std::sqrt(2.0 / (1.0 + a * a));
  return std::sqrt(3.0) * (gain / std::sqrt(static_cast<double>(fan_in)));
}

std::optional<ValueId> Graph::FindInput(std::string_view name) const {
  for (ValueId input : inputs_) {
    if (value(input).name == name) {
      return input;
    }
  }
  return std::nullopt;
}

std::optional<ValueId> Graph::FindOutput(std::string_view name) const {
  for (const Output& output : outputs_) {
    if (output.name == name) {
      return output.value;
    }
  }
  return std::nullopt;
}

ValueId Graph::AddValue(std::string_view name, TensorType type) {
  std::string unique(name);
  if (auto taken = value_names_.find(name); taken != value_names_.end()) {
    do {
      unique = absl::StrCat(taken->first, "_", ++taken->second);
    } while (value_names_.contains(unique));
  }
  value_names_.emplace(unique, 0);
  values_.push_back({std::move(unique), std::move(type)});
  return {num_values() - 1};
}

ValueId Graph::AddInput(std::string_view name, TensorType type) {
  inputs_.push_back(AddValue(name, std::move(type)));
  return inputs_.back();
}

ValueId Graph::AddParameter(std::string_view name, TensorType type, Initializer initializer) {
  const ValueId id = AddValue(name, std::move(type));
  parameters_.push_back({std::string(name), id, initializer});
  return id;
}

ValueId Graph::AddBuffer(std::string_view name, TensorType type, Initializer initializer) {
  const ValueId id = AddValue(name, std::move(type));
  buffers_.push_back({std::string(name), id, initializer});
  return id;
}

void Graph::AddBatchCounter(std::string_view name, ValueId running_mean) {
  const auto is_known = [&](const BatchCounter& one) { return one.running_mean == running_mean && one.name == name; };
  if (std::none_of(batch_counters_.begin(), batch_counters_.end(), is_known)) {
    batch_counters_.push_back({std::string(name), running_mean});
  }
}

void Graph::AddNode(Node node) { nodes_.push_back(std::move(node)); }

ValueId Graph::AddNode(Node node, std::string_view output_name, TensorType type) {
  const ValueId id = AddValue(output_name, std::move(type));
  node.outputs = {id};
  AddNode(std::move(node));
  return id;
}

void Graph::AddOutput(std::string_view name, ValueId value) { outputs_.push_back({std::string(name), value}); }

void Graph::SetType(ValueId id, TensorType type) { values_[static_cast<size_t>(id.index)].type = std::move(type); }

namespace {

// Checks the definitions and uses of a graph in order.
class DefinitionCheck {
 public:
  explicit DefinitionCheck(const Graph& graph)
      : graph_(graph), defined_(static_cast<size_t>(graph.num_values()), false) {}

  absl::Status Define(ValueId id) {
    if (!IsKnown(id)) {
      return Broken(absl::StrCat("value ", id.index, " does not belong to graph ", graph_.name()));
    }
    if (defined_[static_cast<size_t>(id.index)]) {
      return Broken(absl::StrCat("%", graph_.value(id).name, " is defined twice"));
    }
    defined_[static_cast<size_t>(id.index)] = true;
    return absl::OkStatus();
  }

  absl::Status Use(ValueId id, std::string_view user) const {
    if (!IsKnown(id)) {
      return Broken(absl::StrCat(std::string(user), " uses value ", id.index, ", which is not of this graph"));
    }
    if (!defined_[static_cast<size_t>(id.index)]) {
      return Broken(absl::StrCat(std::string(user), " uses %", graph_.value(id).name, " before it is defined"));
    }
    return absl::OkStatus();
  }

  absl::Status Run(const Node& node) {
    if (node.op.empty()) {
      return Broken("a node has no op");
    }
    for (ValueId use : node.Uses()) {
      AMPD_RETURN_IF_ERROR(Use(use, node.op));
    }
    for (ValueId output : node.outputs) {
      AMPD_RETURN_IF_ERROR(Define(output));
    }
    return absl::OkStatus();
  }

 private:
  bool IsKnown(ValueId id) const { return id.index >= 0 && id.index < graph_.num_values(); }

  const Graph& graph_;
  std::vector<bool> defined_;
};

absl::Status CheckStateNames(const Graph& graph) {
  std::set<std::string_view> names;
  for (const auto* states : {&graph.parameters(), &graph.buffers()}) {
    for (const State& state : *states) {
      if (!names.insert(state.name).second) {
        return Broken(absl::StrCat("two parameters or buffers are named ", state.name));
      }
    }
  }
  for (const BatchCounter& counter : graph.batch_counters()) {
    if (!names.insert(counter.name).second) {
      return Broken(absl::StrCat("two parameters or buffers are named ", counter.name));
    }
  }
  return absl::OkStatus();
}

absl::Status CheckOutputNames(const Graph& graph) {
  std::set<std::string_view> names;
  for (const Output& output : graph.outputs()) {
    if (!names.insert(output.name).second) {
      return Broken(absl::StrCat("two outputs are named ", output.name));
    }
  }
  return absl::OkStatus();
}

}  // namespace

absl::Status Graph::Check() const {
  AMPD_RETURN_IF_ERROR(CheckStateNames(*this));
  AMPD_RETURN_IF_ERROR(CheckOutputNames(*this));
  DefinitionCheck check(*this);
  for (ValueId input : inputs_) {
    AMPD_RETURN_IF_ERROR(check.Define(input));
  }
  for (const auto* states : {&parameters_, &buffers_}) {
    for (const State& state : *states) {
      AMPD_RETURN_IF_ERROR(check.Define(state.value));
    }
  }
  for (const Node& node : nodes_) {
    AMPD_RETURN_IF_ERROR(check.Run(node));
  }
  for (const Output& output : outputs_) {
    AMPD_RETURN_IF_ERROR(check.Use(output.value, absl::StrCat("output ", output.name)));
  }
  return absl::OkStatus();
}

}  // namespace ampd::graph
