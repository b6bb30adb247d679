#include "worker/executor/backward_fault.h"

#include <torch/csrc/autograd/autograd.h>
#include <torch/csrc/autograd/function.h>
#include <torch/csrc/autograd/function_hook.h>

#include <algorithm>
#include <exception>
#include <memory>
#include <set>
#include <utility>

namespace ampd::executor {
namespace {

using AutogradNode = torch::autograd::Node;
using torch::autograd::variable_list;

// Records which autograd node runs next, so that the node that throws is known. The nodes of one device run one at a
// time.
class NoteHook : public torch::autograd::FunctionPreHook {
 public:
  NoteHook(std::string where, std::shared_ptr<std::string> running)
      : where_(std::move(where)), running_(std::move(running)) {}

  variable_list operator()(const variable_list& gradients) override {
    *running_ = where_;
    return gradients;
  }

 private:
  const std::string where_;
  const std::shared_ptr<std::string> running_;
};

// Returns text that names the traced call which created an autograd node. Empty if no call created the node,
// for example if it is the node of a parameter.
std::string MakerOf(const AutogradNode& node, const std::vector<TracedCall>& calls) {
  const auto call = std::find_if(calls.begin(), calls.end(), [&](const TracedCall& one) {
    return node.sequence_nr() >= one.first_node && node.sequence_nr() < one.end_node;
  });
  return call == calls.end() ? "" : call->where;
}

void AddHooks(AutogradNode& last, const std::vector<TracedCall>& calls, const std::shared_ptr<std::string>& running) {
  std::set<AutogradNode*> seen = {&last};
  std::vector<AutogradNode*> found = {&last};
  while (!found.empty()) {
    AutogradNode* const node = found.back();
    found.pop_back();
    node->add_pre_hook(std::make_unique<NoteHook>(MakerOf(*node, calls), running));
    for (const torch::autograd::Edge& edge : node->next_edges()) {
      if (edge.is_valid() && seen.insert(edge.function.get()).second) {
        found.push_back(edge.function.get());
      }
    }
  }
}

}  // namespace

std::string FindBackwardFault(Executor& program, std::vector<at::Tensor> inputs) {
  std::vector<TracedCall> calls;
  const at::Tensor loss = program.RunTraced(std::move(inputs), calls).front();
  if (loss.grad_fn() == nullptr) {
    return "";
  }
  const auto running = std::make_shared<std::string>();
  AddHooks(*loss.grad_fn(), calls, running);
  try {
    loss.backward();
  } catch (const std::exception&) {
    return *running;
  }
  return "";
}

}  // namespace ampd::executor
