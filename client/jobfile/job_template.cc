#include "client/jobfile/job_template.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "client/jobfile/job_template_parts.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr char kHead[] =
    R"(# A job for ampd: FIELD: VALUE in YAML. About the fields: ampctl help job-file
#   check it:       ampctl job submit -f FILE --dry-run
#   run it:         ampctl job submit -f FILE --follow
#   change a field: ampctl job submit -f FILE --set train.steps=500
)";

// Aligns the comments that follow fields in one column. A comment after a field that reaches beyond this column stays
// where it is.
std::string WithAlignedComments(const std::string& text) {
  constexpr size_t kColumn = 34;
  std::vector<std::string> lines = absl::StrSplit(text, '\n');
  for (std::string& line : lines) {
    const size_t comment = line.find(" # ");
    const size_t end = line.find_last_not_of(' ', comment);
    if (comment != std::string::npos && end != std::string::npos && end + 1 < kColumn) {
      line = absl::StrCat(line.substr(0, end + 1), std::string(kColumn - end - 1, ' '), line.substr(comment + 1));
    }
  }
  return absl::StrJoin(lines, "\n");
}

template <typename Entries>
std::vector<std::string> NamesOf(const Entries& entries) {
  std::vector<std::string> names;
  for (const auto& entry : entries) {
    names.emplace_back(entry.name);
  }
  return names;
}

// Returns the fields `mean` and `std`. They map pixels to numbers from 0 to 1 for an exported model, and from -1 to 1
// for other models. A GAN needs the latter, because its generator makes images in this range.
std::string MappingFor(const std::string& model, const std::string& data) {
  if (model == "exported") {
    return "mean: [0]                   # pixels become (value / 255 - mean) / std; one number, or one per channel\n"
           "      std: [1]";
  }
  const bool is_one_number = data == "idx";
  return is_one_number
             ? "mean: 0.5                   # pixels become (value / 255 - mean) / std\n      std: 0.5"
             : "mean: [0.5]                 # pixels become (value / 255 - mean) / std; one number, or one per "
               "channel\n      std: [0.5]";
}

std::string DataSection(const ModelPart& model, const DataPart& data) {
  const std::string mapping = MappingFor(model.name, data.name);
  const std::string train = absl::StrReplaceAll(data.train, {{"MAPPING", mapping}});
  const std::string eval = absl::StrReplaceAll(data.eval, {{"MAPPING", mapping}});
  const bool is_gan = std::string(model.name) == "dcgan";
  return absl::StrCat("data:\n  train:\n", train,
                      is_gan ? "" : "  eval:                           # leave it out to train without evaluations\n",
                      is_gan ? "" : eval, "  batch_size: ", model.batch_size,
                      "                 # samples per step, over all micro-batches\n");
}

// Whether the server would accept the name of a job. Such a name needs no quotes in YAML.
bool IsJobName(const std::string& name) {
  constexpr size_t kMaxBytes = 63;
  return !name.empty() && name.size() <= kMaxBytes && name.front() >= 'a' && name.front() <= 'z' &&
         name.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
}

std::string TrainingSections(const ModelPart& model) {
  const bool is_gan = std::string(model.name) == "dcgan";
  return absl::StrCat(
      R"(
precision:
  preset: auto                    # bf16, fp16 or fp32: the first that the device computes natively. Or one of
                                  # those, fp8, torch-amp-fp16, apex-o2, ...: ampctl policy list

optimizer:
)",
      model.optimizer, R"(
schedule:
  warmup_steps: 100
  cosine: {final_ratio: 0.05}     # the rate falls to this share of learning_rate

train:
  steps: 2000                     # or epochs: N
  clip_grad_norm: 1.0             # leave it out not to clip
  gradient_accumulation: 1        # micro-batches per step: more of them need less memory
  seed: 0
)",
      is_gan ? "" : "\neval:\n  every_steps: 200\n",
      R"(
checkpoint:
  every_steps: 500
  keep: 2                         # how many of the newest are kept
)",
      is_gan ? "" : "  keep_best: true                 # and the one with the lowest loss of an evaluation\n",
      model.sample, R"(
resources:
  kind: AUTO                      # a GPU if one fits, a CPU otherwise; or CPU, GPU
)");
}

}  // namespace

std::vector<std::string> TemplateModels() { return NamesOf(ModelParts()); }

std::vector<std::string> TemplateData() { return NamesOf(DataParts()); }

absl::StatusOr<std::string> JobTemplate(const std::string& model, const std::string& data, const std::string& name) {
  const auto found =
      std::find_if(ModelParts().begin(), ModelParts().end(), [&](const ModelPart& one) { return one.name == model; });
  if (found == ModelParts().end()) {
    return absl::InvalidArgumentError(
        absl::StrCat("there is no model '", model, "'; choose one of: ", absl::StrJoin(TemplateModels(), ", ")));
  }
  if (!IsJobName(name)) {
    return absl::InvalidArgumentError(absl::StrCat(
        "the name '", Printable(name),
        "' can't be a job's: a name has 1 to 63 characters: ", "a-z, 0-9 and '-', beginning with a letter"));
  }
  const std::string kind = data.empty() ? found->data.front() : data;
  if (std::find(found->data.begin(), found->data.end(), kind) == found->data.end()) {
    return absl::InvalidArgumentError(absl::StrCat("the model '", model, "' can't be trained on data of the kind '",
                                                   kind, "'; choose one of: ", absl::StrJoin(found->data, ", ")));
  }
  const auto source =
      std::find_if(DataParts().begin(), DataParts().end(), [&](const DataPart& one) { return one.name == kind; });
  const ImageFacts& images = source->images;
  const std::string model_text =
      absl::StrReplaceAll(found->text, {{"CHANNELS", std::to_string(images.channels)},
                                        {"SIZE", std::to_string(images.size)},
                                        {"CLASSES", std::to_string(images.classes)},
                                        {"FEATURES", std::to_string(images.channels * images.size * images.size)}});
  return kHead + WithAlignedComments(absl::StrCat("\nname: ", name, "\n\nmodel:\n", model_text, "\n",
                                                  DataSection(*found, *source), TrainingSections(*found)));
}

}  // namespace ampd::client
