#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>
#include <vector>

#include "graph/cost/attention_memory.h"
#include "graph/cost/loss_memory.h"
#include "graph/cost/recurrent_memory.h"
#include "graph/graph.h"
#include "graph/op_table.h"

namespace ampd::graph {

// How ampd's CUDA kernels divide their sums and pack a mask. These constants equal those of worker/kernels/cuda, which
// this folder may not include; worker/amp/ops checks that.
inline constexpr int64_t kLayerNormPartials = 264;    // Partial sums for each weight and bias of a layer norm.
inline constexpr int64_t kBatchNormSumBlocks = 528;   // Thread blocks that sum the channels of a batch norm.
inline constexpr int64_t kBatchNormSumChannels = 64;  // Maximum number of channels that one such block sums.
inline constexpr int64_t kBatchNormMaskPack = 8;      // Channels whose ReLU masks share one byte.
inline constexpr int64_t kColumnSumBlocks = 264;      // Thread blocks that sum the columns of a matrix.
inline constexpr int64_t kColumnSumTile = 256;        // Maximum number of columns that one such block sums.

// The memory of each node of a program, as LibTorch's CPU ops run it: which results have their own memory, what is
// saved for the backward pass, and what is needed only while an op runs. The memory depends on the op table, on which
// values are trained, and on which values lie channels-last in memory. On a GPU only two estimates differ: those of
// attention, and of the cross entropy over many classes. Their GPU kernels never hold all scores or all logarithms.
// Thread-compatible. REQUIRES: the program outlives this object; every op is in the op table or one that ApplyPrecision
// or WithFusedBatchNorms inserts.
class OpMemory {
 public:
  // `trained`: glob on the names of trained parameters.
  OpMemory(const Graph& program, int64_t batch_size, const std::string& trained, bool on_gpu);

  // Whether a value, or the results of a node, have a gradient.
  bool IsTrained(ValueId value) const { return states_[Index(value)].trained; }
  bool IsTrained(const Node& node) const { return !node.outputs.empty() && IsTrained(node.outputs[0]); }

  int64_t Bytes(ValueId value) const;

  // The value whose memory a result uses, because the result is a view of it; nothing if the result has its own memory.
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

  // Whether one tensor is the gradient of both arguments. See worker/amp/ops/layer_norm.cc.
  bool SharesGradient(const Node& node, ValueId argument, ValueId other) const;

  // Whether the gradient of an argument is written over the argument if nothing else holds the argument
  // (worker/amp/ops/cross_entropy.cc).
  bool WritesGradientOver(const Node& node, ValueId argument) const;

  // The sizes of a recurrent op. A 16-bit layer counts as fp32 if its op computes in fp32 copies. REQUIRES:
  // IsRecurrent(node).
  RecurrentSizes RecurrentSizesOf(const Node& node) const;

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
  int64_t PositionBytes(const Node& node) const;
  LossHeadSizes LossHeadSizesOf(const Node& node) const;
  int64_t InnerBytes(const Node& node, std::string_view name) const;
  int64_t ImageCopy(const Node& node) const;
  int64_t WideCopies(const Node& node) const;
  int64_t WideBackward(const Node& node) const;
  int64_t PoolingCopies(const Node& node) const;
  int64_t UnsummedGradient(const Node& node) const;
  int64_t UnsummedLoss(const Node& node) const;
  int64_t LogarithmPart(const Node& node) const;
  int64_t NormPartials(const Node& node) const;
  int64_t BiasPartials(const Node& node) const;
  int64_t BlockedWeights(const Node& node) const;
  int64_t TurnedWeights(const Node& node) const;
  int64_t PartialSums(const Node& node) const;

  const Graph& graph_;
  const int64_t batch_size_;
  const bool on_gpu_;
  std::vector<State> states_;  // Indexed by value.
};

}  // namespace ampd::graph
