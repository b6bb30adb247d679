#pragma once

#include <map>
#include <optional>

#include "graph/graph.h"
#include "graph/op_table.h"

namespace ampd::precision {

// Tracks the values of a graph whose dtype should follow the dtype of other values, so that the precision pass can
// choose it. The pass adds every node in order and queries the result.
//
// A model that needs fp32 for some ops usually casts their result back, `norm(x.float()).to(x.dtype)`. It also makes
// noise and masks in the dtype of the tensor with which they are combined. In the exported graph all these dtypes are
// float32. Node::follows_dtype marks the nodes whose float32 stands for "the dtype of another tensor": the cast back,
// the noise and the masks. Therefore:
// * If a marked cast reads a value that is fp32 because the model requests it (Node::keeps_fp32), or that was computed
//   from such a value, the cast's result gets the narrowest dtype among the values from which its input was computed.
// * A marked value "yields" if it was made only from constants, bools or integers: it does not widen the result when it
//   is combined with another value. A 0-dim value yields too if a marked cast made it, as in `scale.to(x.dtype)`.
//
// Single-threaded; owner: the pass.
class FollowedDtypes {
 public:
  // `types` is the program with the types that the pass has set so far. REQUIRES: `types` outlives this object.
  explicit FollowedDtypes(const graph::Graph& types) : types_(types) {}

  // The narrowest dtype among the floating-point values from which the node's inputs were computed; nothing if there
  // are none. float64 counts as float32, because a marked node is float32 in the file.
  std::optional<graph::Dtype> FollowedBy(const graph::Node& node) const;
  bool Yields(graph::ValueId value) const;
  // Adds the next node of the source graph. REQUIRES: the pass has set the final dtypes of the node's results in
  // `types`.
  void Add(const graph::Node& node, graph::OpClass op_class);

 private:
  struct Origin {
    std::optional<graph::Dtype> dtype;  // Nothing if made without floating-point values.
    bool yields = false;
  };

  const graph::Graph& types_;
  std::map<graph::ValueId, Origin> origins_;  // Only values that follow another dtype than their own.
};

// Whether a node is a cast that the model itself contains. The model names the dtype of such a cast, so the policy does
// not change it.
bool IsCast(const graph::Node& node);

}  // namespace ampd::precision
