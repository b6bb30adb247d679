#pragma once

#include <map>
#include <optional>

#include "graph/graph.h"
#include "graph/op_table.h"

namespace ampd::precision {

// What the values of a program follow, where that is not their own dtype. The precision pass tells of every node in
// order, and asks.
//
// A model that means fp32 somewhere goes back afterwards to the dtype that came, `norm(x.float()).to(x.dtype)`, and
// makes noise and masks in the dtype of what they are for. The export has float32 for both, and of the second kind
// Node::follows_dtype. So
// * what is fp32 because the model asks for it (Node::keeps_fp32), and what is computed of that, follows the narrowest
//   dtype that went into it: a cast that follows gives this dtype;
// * what follows and is made of no floating-point value, but of constants, truths or whole numbers, yields: it does not
//   widen what it meets. So does a value of no dimension that is cast to follow, `scale.to(x.dtype)`.
//
// Single-threaded: owner the pass.
class FollowedDtypes {
 public:
  // `types`: of the program, as the pass has set them so far; outlives this.
  explicit FollowedDtypes(const graph::Graph& types) : types_(types) {}

  // The narrowest dtype that went into what a node reads; nothing: no floating-point value did.
  std::optional<graph::Dtype> FollowedBy(const graph::Node& node) const;
  bool Yields(graph::ValueId value) const;
  // Takes in a node of the source, whose results have their dtypes now.
  void Add(const graph::Node& node, graph::OpClass op_class);

 private:
  struct Origin {
    std::optional<graph::Dtype> dtype;  // nothing: made of no floating-point value
    bool yields = false;
  };

  const graph::Graph& types_;
  std::map<graph::ValueId, Origin> origins_;  // of values that follow another dtype than their own
};

// Whether a node is a cast. Its dtype is what the model names, whatever the policy computes in.
bool IsCast(const graph::Node& node);

}  // namespace ampd::precision
