#pragma once

#include <map>
#include <optional>

#include "graph/graph.h"
#include "graph/op_table.h"

namespace ampd::precision {

// Tracks the values of a graph whose dtype should follow the dtype of other values, so that the precision pass can
// choose it. The pass adds every node in order and queries the result.
//
// A model that needs fp32 somewhere usually returns to the original dtype, `norm(x.float()).to(x.dtype)`, and makes
// noise and masks in the dtype of the tensor they are for. The exported graph has the dtype float32 in both cases; it
// marks the second kind (back to x.dtype, noise, masks) with Node::follows_dtype. Therefore:
// * a value that is fp32 because the model requests it (Node::keeps_fp32), and what is computed from it, follows the
//   narrowest dtype that went into it: a cast that follows produces this dtype;
// * a value that follows and was made without floating-point values, from constants, truth values or whole numbers,
//   yields: it does not widen what it is combined with. So does a 0-dim value that is cast to follow,
//   `scale.to(x.dtype)`.
//
// Single-threaded; owner: the pass.
class FollowedDtypes {
 public:
  // `types` is the program with the types that the pass has set so far. REQUIRES: it outlives this.
  explicit FollowedDtypes(const graph::Graph& types) : types_(types) {}

  // The narrowest dtype among the floating-point values from which the node's inputs were computed; nothing if there
  // are none.
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

// Whether a node is a cast that the model contains. The model names the dtype of such a cast, so the policy does not
// change it.
bool IsCast(const graph::Node& node);

}  // namespace ampd::precision
