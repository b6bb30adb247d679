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

// A fault in a forward pass, and where it began.
struct ActivationFault {
  enum class Kind {
    kNotFinite,   // The loss is not finite. The fault is where the non-finite numbers that led to it began.
    kDividedOut,  // A divisor overflowed to infinity, so the quotients are zero.
    kVanished,    // A product of nonzero numbers is zero everywhere, because its format cannot hold numbers that small.
  };
  Kind kind = Kind::kNotFinite;
  std::string module;  // Module of `op`; empty for the model itself, an input, a parameter or a buffer.
  std::string op;      // "aten.mul.Tensor"; "input", "parameter" or "buffer" if no op computed the value.
  std::string value;   // Name of the faulty value.
  std::string dtype;   // Format of its numbers, "float16".
  double share = 0;    // Share of the sampled numbers that are not finite; for kVanished, that are zero.
  // For kDividedOut only: the op whose quotients are zero, and its module.
  std::string zero_op;
  std::string zero_module;

  friend bool operator==(const ActivationFault&, const ActivationFault&) = default;
};

std::string_view NameOf(ActivationFault::Kind kind);  // "DIVIDED_OUT"

// Watches the values that a program computes while it runs, and finds the first fault. It samples at most 65,536
// elements of each value: those at evenly spaced indices of the first dimensions and at all indices of the others. It
// changes no value.
//
// The faults are:
//   kDividedOut  A divisor (also the argument of rsqrt or of a negative power) overflowed to infinity. The overflow
//                of an exponential does not count: its reciprocal should be zero, as in x / (1 + exp(-x)).
//   kVanished    A product, quotient or cast is zero everywhere, although none of its factors is zero in more than
//                half of its elements.
//   kNotFinite   The op that made the loss infinite or NaN, found by going backwards from the loss.
//
// Most zeros and infinities are intended and are not faults. Zeros come from inactive ReLUs, dropout, masks, padding,
// weights that start at zero, and products of all these. Infinities come from masks that are filled with them and from
// sums with such masks; a softmax turns them into zeros again. An infinity counts as intended if it was written by a
// fill op, if it is in a buffer, or if the op that produced it read only intended infinities. Infinite and NaN values
// that lead to none of the three faults (tanh turns infinity into 1) are not reported.
//
// Observes one run. Waits for the device after every value. Single-threaded; owner: Phase.
class ActivationSampler final : public executor::RunObserver {
 public:
  // REQUIRES: `program` is the graph that the executor runs, and outlives the sampler.
  explicit ActivationSampler(const graph::Graph& program);

  void Observe(graph::ValueId value, const at::Tensor& tensor) override;

  // Call after the run. Returns the kNotFinite fault if there is one, else the first fault in the order of the forward
  // pass.
  std::optional<ActivationFault> Fault() const;

 private:
  // Counts over the sampled elements of a value.
  struct Facts {
    bool is_number = false;  // Has a floating-point format.
    at::ScalarType dtype = at::kFloat;
    int64_t num_elements = 0;
    int64_t num_zero = 0;
    int64_t num_infinite = 0;
    int64_t num_nan = 0;
    bool is_meant = false;  // Its infinities are intended.

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
  std::vector<const graph::Node*> makers_;  // The node of each value; null for inputs, parameters and buffers.
  std::vector<Facts> facts_;                // Indexed by value.
  std::optional<ActivationFault> first_;    // The first fault other than kNotFinite.
};

}  // namespace ampd::amp
