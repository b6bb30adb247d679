#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/graph.h"
#include "graph/memory/attention_memory.h"
#include "graph/memory/recurrent_memory.h"
#include "graph/op_table.h"

namespace ampd::graph {

// The number of rows for which "ampd.cross_entropy" holds the logarithms of all classes at once. They fill 4 MiB, or
// 128 MiB on a GPU, where fewer parts mean fewer kernel launches.
int64_t CrossEntropyRows(int64_t num_classes, bool on_gpu);

// The memory of each node of a program, as LibTorch's CPU ops run it: which results have their own memory, what is
// saved for the backward pass, and what is needed only while an op runs. This follows from the op table, and from which
// values are trained and which lie in memory channels-last; the constructor determines both for each node in turn. For
// a GPU only attention is treated differently, because its kernels there never hold all scores. Thread-compatible.
// REQUIRES: the program outlives it; every op is in the op table or one that ApplyPrecision inserts.
class OpMemory {
 public:
  // `trained`: glob on the names of trained parameters.
  OpMemory(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu);

  // Whether a value, or the results of a node, have a gradient.
  bool IsTrained(ValueId value) const { return states_[Index(value)].trained; }
  bool IsTrained(const Node& node) const { return !node.outputs.empty() && IsTrained(node.outputs[0]); }

  int64_t Bytes(ValueId value) const;

  // The value whose memory a result shows; nothing if it has its own.
  std::optional<ValueId> ShownBy(const Node& node, ValueId output) const;

  // What a node saves for its backward pass: a value of the program, or bytes of an internal tensor.
  struct Kept {
    std::optional<ValueId> value;
    int64_t inner_bytes = 0;
  };
  std::vector<Kept> Keeps(const Node& node) const;

  // Bytes needed only while the node runs (Forward), and only while its backward pass runs (Backward).
  int64_t ForwardWorkspace(const Node& node) const;
  int64_t BackwardWorkspace(const Node& node) const;

  // Whether the gradient of an argument is the same tensor as the gradient of the node's result.
  bool PassesGradient(const Node& node, ValueId argument) const;

  // Whether the gradient of an argument is written over the argument if nothing else holds the argument
  // (worker/amp/ops/cross_entropy.cc).
  bool WritesGradientOver(const Node& node, ValueId argument) const;

 private:
  struct State {
    bool trained = false;
    bool channels_last = false;
    bool flattened_by_copy = false;
  };

  static size_t Index(ValueId value) { return static_cast<size_t>(value.index); }
  void Mark(const Node& node);
  bool IsChannelsLast(const Node& node, ValueId output) const;
  int64_t Elements(ValueId value) const;
  int64_t WideBytes(ValueId value) const;
  bool MakesScores(const Node& node) const;
  AttentionSizes AttentionSizesOf(const Node& node) const;
  RecurrentSizes RecurrentSizesOf(const Node& node) const;
  int64_t PositionBytes(const Node& node) const;
  int64_t InnerBytes(const Node& node, std::string_view name) const;
  int64_t ImageCopy(const Node& node) const;
  int64_t WideCopies(const Node& node) const;
  int64_t WideBackward(const Node& node) const;
  int64_t PoolingCopies(const Node& node) const;
  int64_t UnsummedGradient(const Node& node) const;
  int64_t UnsummedLoss(const Node& node) const;
  int64_t LogarithmPart(const Node& node) const;
  int64_t BlockedWeights(const Node& node) const;
  int64_t TurnedWeights(const Node& node) const;

  const Graph& graph_;
  const int64_t batch_size_;
  const bool on_gpu_;
  std::vector<State> states_;  // Indexed by value.
};

}  // namespace ampd::graph
