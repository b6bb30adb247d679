#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "absl/types/span.h"
#include "graph/graph.h"

// What makes a loss of a model's output. A model says which by the name of that output.
namespace ampd::graph {

enum class Head {
  kClassification,  // of "logits" (B, classes): the cross entropy
  kLanguageModel,   // of "logits" (B, positions, vocabulary): the cross entropy, over all positions
  kRegression,      // of "predictions" (B, ...): the mean squared error
  kMultiLabel,      // of "label_logits" (B, classes), a sigmoid each: the binary cross entropy
  kOwnLoss,         // of "loss", a scalar: nothing, for it is the loss
  kGan,             // of "discriminator_loss" and "generator_loss", scalars: nothing, for they are (graph/losses.h)
};

// A label of this class is no label: cross entropies leave it out of the loss and of its mean, as PyTorch's do.
inline constexpr int64_t kIgnoredLabel = -100;

// "LANGUAGE_MODEL": as jobs call it.
std::string_view HeadName(Head head);
// The head of that name; nothing when there is none.
std::optional<Head> HeadNamed(std::string_view name);

// {"logits"}: what a model calls the outputs that the head takes, which is one but for kGan.
absl::Span<const std::string_view> OutputNamesOf(Head head);

// "float32[B, classes]": the types of output that the head takes, for messages.
std::string_view TakenBy(Head head);

// Whether the head takes an output of this type; of several, each.
bool Takes(Head head, const TensorType& output);

// The head of a model that names none, by the type of its output: one of those with a cross entropy; nothing when that
// does not tell.
std::optional<Head> HeadOf(const TensorType& output);

// The head that takes an output of the model; nothing when it has none, as a model of several losses (graph/losses.h),
// which is trained without one: never kGan.
std::optional<Head> HeadOf(const Graph& model);

// Whether what a model predicts is right or wrong, so that there is a share of it that is right.
bool HasAccuracy(Head head);

// Whether it predicts the classes of a sample, so that there is an F1 of each.
bool PredictsClasses(Head head);

}  // namespace ampd::graph
