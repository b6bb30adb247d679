#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "graph/graph.h"

// A head is the way in which a loss is computed from a model's output. The name of that output selects the head.
namespace ampd::graph {

enum class Head {
  kClassification,  // "logits" (B, classes): cross entropy.
  kLanguageModel,   // "logits" (B, positions, vocabulary): cross entropy over all positions.
  kRegression,      // "predictions" (B, ...): mean squared error.
  kMultiLabel,      // "label_logits" (B, classes), one sigmoid each: binary cross entropy.
  kOwnLoss,         // "loss", a scalar: the loss itself.
  kGan,             // "discriminator_loss" and "generator_loss", scalars: the losses themselves (graph/losses.h).
};

// The class that marks a missing label: cross entropies leave it out of the loss and of its mean, as in PyTorch.
inline constexpr int64_t kIgnoredLabel = -100;

// The head's name in job files: "LANGUAGE_MODEL".
std::string_view HeadName(Head head);
// The head with this name; nothing if there is none.
std::optional<Head> HeadNamed(std::string_view name);

// The model's names for the outputs that the head takes: {"logits"}. Exactly one, except for kGan.
absl::Span<const std::string_view> OutputNamesOf(Head head);

// The types of output that the head takes, for messages: "float32[B, classes]".
std::string_view TakenBy(Head head);

// Whether the head takes an output of this type. A head of several outputs takes the same type for all of them.
bool Takes(Head head, const TensorType& output);

// The default head for an output of this type: a head with a cross entropy. Nothing if the type does not imply one.
std::optional<Head> HeadOf(const TensorType& output);

// The head that takes an output of the model, found by the output's name; never kGan. Nothing if there is none, as for
// a model with several losses (graph/losses.h), which is trained without a head.
std::optional<Head> HeadOf(const Graph& model);

// Whether each prediction is either right or wrong, so that an accuracy can be computed.
bool HasAccuracy(Head head);

// Whether the model predicts the classes of a sample, so that each class has an F1 score.
bool PredictsClasses(Head head);

}  // namespace ampd::graph
