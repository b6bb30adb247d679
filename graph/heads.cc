#include "graph/heads.h"

#include <algorithm>
#include <iterator>

namespace ampd::graph {
namespace {

constexpr Head kHeads[] = {Head::kClassification, Head::kLanguageModel, Head::kRegression,
                           Head::kMultiLabel,     Head::kOwnLoss,       Head::kGan};

constexpr std::string_view kLogits[] = {"logits"};
constexpr std::string_view kPredictions[] = {"predictions"};
constexpr std::string_view kLabelLogits[] = {"label_logits"};
constexpr std::string_view kLoss[] = {"loss"};
// The names of a GAN's losses, in the order in which a training step computes them.
constexpr std::string_view kGanLosses[] = {"discriminator_loss", "generator_loss"};

// Whether the shape is (B, ...), with B in no other dimension.
bool IsOfSamples(const Shape& shape) {
  return !shape.empty() && shape[0] == Dim::Batch() &&
         std::none_of(shape.begin() + 1, shape.end(), [](const Dim& dim) { return dim.is_batch(); });
}

// The rank of the outputs that the head takes; nothing if it takes any rank from 1 on.
std::optional<size_t> RankOf(Head head) {
  switch (head) {
    case Head::kClassification:
    case Head::kMultiLabel:
      return 2;
    case Head::kLanguageModel:
      return 3;
    case Head::kOwnLoss:
    case Head::kGan:
      return 0;
    case Head::kRegression:
      return std::nullopt;
  }
  return std::nullopt;
}

bool HasRank(Head head, const TensorType& output) {
  const std::optional<size_t> rank = RankOf(head);
  return !rank.has_value() || *rank == output.shape.size();
}

}  // namespace

std::string_view HeadName(Head head) {
  switch (head) {
    case Head::kClassification:
      return "CLASSIFICATION";
    case Head::kLanguageModel:
      return "LANGUAGE_MODEL";
    case Head::kRegression:
      return "REGRESSION";
    case Head::kMultiLabel:
      return "MULTI_LABEL";
    case Head::kOwnLoss:
      return "OWN_LOSS";
    case Head::kGan:
      return "GAN";
  }
  return "";
}

std::optional<Head> HeadNamed(std::string_view name) {
  const auto* const head =
      std::find_if(std::begin(kHeads), std::end(kHeads), [name](Head one) { return HeadName(one) == name; });
  return head == std::end(kHeads) ? std::nullopt : std::optional(*head);
}

absl::Span<const std::string_view> OutputNamesOf(Head head) {
  switch (head) {
    case Head::kClassification:
    case Head::kLanguageModel:
      return kLogits;
    case Head::kRegression:
      return kPredictions;
    case Head::kMultiLabel:
      return kLabelLogits;
    case Head::kOwnLoss:
      return kLoss;
    case Head::kGan:
      return kGanLosses;
  }
  return {};
}

std::string_view TakenBy(Head head) {
  switch (head) {
    case Head::kClassification:
    case Head::kMultiLabel:
      return "float32[B, classes]";
    case Head::kLanguageModel:
      return "float32[B, positions, vocabulary]";
    case Head::kRegression:
      return "float32[B, ...]";
    case Head::kOwnLoss:
      return "a scalar, float32[]";
    case Head::kGan:
      return "two scalars, float32[], the losses of discriminator and generator";
  }
  return "";
}

bool Takes(Head head, const TensorType& output) {
  return output.dtype == Dtype::kFloat32 && HasRank(head, output) && (RankOf(head) == 0 || IsOfSamples(output.shape));
}

std::optional<Head> HeadOf(const TensorType& output) {
  for (const Head head : {Head::kClassification, Head::kLanguageModel}) {
    if (Takes(head, output)) {
      return head;
    }
  }
  return std::nullopt;
}

std::optional<Head> HeadOf(const Graph& model) {
  for (const Head head : kHeads) {
    const auto output = model.FindOutput(OutputNamesOf(head).front());
    if (head != Head::kGan && output.has_value() && HasRank(head, model.type(*output))) {
      return head;
    }
  }
  return std::nullopt;
}

bool HasAccuracy(Head head) { return PredictsClasses(head) || head == Head::kLanguageModel; }

bool PredictsClasses(Head head) { return head == Head::kClassification || head == Head::kMultiLabel; }

}  // namespace ampd::graph
