#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "ATen/core/Tensor.h"
#include "graph/graph.h"
#include "worker/executor/executor.h"

namespace ampd::amp {

// What went wrong in a forward pass, and where it began.
struct ActivationFault {
  enum class Kind {
    kNotFinite,   // the loss is not finite, and this is the first number behind it that is not
    kDividedOut,  // numbers were divided by an infinity that an overflow had made, and are zero from there on
    kVanished,    // a product of numbers that are not zero is zero all over: its format holds none so small
  };
  Kind kind = Kind::kNotFinite;
  std::string module;  // whose op made it; empty for the model itself and for what a pass begins with
  std::string op;      // "aten.mul.Tensor"; "input", "parameter" or "buffer" for what a pass begins with
  std::string value;   // the name of its result, or of what a pass begins with
  std::string dtype;   // of those numbers, "float16"
  double share = 0;    // of the numbers looked at there: how many are not finite, or zero
  // Of kDividedOut: the op that made zeros, and its module.
  std::string zero_module;
  std::string zero_op;

  friend bool operator==(const ActivationFault&, const ActivationFault&) = default;
};

std::string_view NameOf(ActivationFault::Kind kind);  // "DIVIDED_OUT"

// Looks at what a program computes while it runs, at no more than 65,536 elements of each value: rows at equal
// distances over all dimensions but the last ones. It reads the program's values and changes none.
//
// Most zeros and infinities are meant. A ReLU that is off, dropout, masks, padding, weights that begin as zero and what
// they are multiplied by are zeros; a mask filled with an infinity and what is added to it are infinities, which a
// softmax turns into zeros again. None of these is a fault. A fault is
//   kDividedOut  a divisor (also of rsqrt, and of a negative power) that is infinite without being meant. An
//   exponential
//                that overflows is left out: one over it is zero as it should be, as in x / (1 + exp(-x)).
//   kVanished    a product, quotient or cast that is zero everywhere, of which nothing that goes into it is zero in
//   more
//                than half of its elements
//   kNotFinite   whatever made the loss infinite or no number, from the loss backwards
// An infinity is meant where a node fills with one, where a buffer holds it, and where all infinities that the node
// reads are meant. Numbers that are not finite and lead to nothing of this (a tanh makes 1 of them) are not told.
//
// For one run. Waits for the device at every value. Single-threaded: owner is the phase.
class ActivationSampler final : public executor::RunObserver {
 public:
  // REQUIRES: `program`, the executor's graph, outlives it.
  explicit ActivationSampler(const graph::Graph& program);

  void Observe(graph::ValueId value, const at::Tensor& tensor) override;

  // After the run: of all faults the first one in the order of the forward pass; kNotFinite before all others.
  std::optional<ActivationFault> Fault() const;

 private:
  // Of what was looked at of a value.
  struct Facts {
    bool is_number = false;  // of a floating-point format
    at::ScalarType dtype = at::kFloat;
    int64_t num_elements = 0;
    int64_t num_zero = 0;
    int64_t num_infinite = 0;
    int64_t num_nan = 0;
    bool is_meant = false;  // what is infinite there

    bool has_fault() const { return num_nan > 0 || (num_infinite > 0 && !is_meant); }
    double ShareNotFinite() const {
      return static_cast<double>(num_infinite + num_nan) / static_cast<double>(num_elements);
    }
  };

  const Facts& FactsOf(graph::ValueId value) const { return facts_[static_cast<size_t>(value.index)]; }
  const graph::Node* MakerOf(graph::ValueId value) const { return makers_[static_cast<size_t>(value.index)]; }
  bool IsMeant(graph::ValueId value) const;
  bool IsDividedOut(const graph::Node& node, const Facts& result) const;
  bool Vanishes(const graph::Node& node, const Facts& result, const at::Tensor& tensor) const;
  bool IsDense(const graph::Operand& factor) const;
  graph::ValueId OriginOf(graph::ValueId value) const;
  ActivationFault FaultAt(ActivationFault::Kind kind, graph::ValueId value) const;

  const graph::Graph& program_;
  std::vector<const graph::Node*> makers_;  // by value; null of what a run begins with
  std::vector<Facts> facts_;                // by value
  std::optional<ActivationFault> first_;    // but for kNotFinite
};

}  // namespace ampd::amp
