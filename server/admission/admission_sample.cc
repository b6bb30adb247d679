// Checks the samples that a job generates while it trains.
#include <string>

#include "absl/strings/str_cat.h"
#include "models/models.h"
#include "models/samples.h"
#include "server/admission/admission_findings.h"

namespace ampd::server {
namespace {

// The parameter `is_sound` of the functions below: whether the model has no errors. Checks that depend on the model's
// sizes are made only then.

constexpr size_t kMaxPromptBytes = 4096;
constexpr double kMaxTemperature = 1e6;

// Checks a prompt of text. Each of its bytes is a token, which the model's vocabulary must include.
void AdmitPrompt(const std::string& prompt, int64_t vocabulary, Findings& findings) {
  if (prompt.size() > kMaxPromptBytes) {
    return findings.Wrong("sample.text.prompt",
                          absl::StrCat("has ", prompt.size(), " bytes; at most ", kMaxPromptBytes));
  }
  for (size_t i = 0; i < prompt.size(); ++i) {
    if (const auto token = static_cast<unsigned char>(prompt[i]); token >= vocabulary) {
      return findings.Wrong(
          "sample.text.prompt",
          absl::StrCat("has the byte ", static_cast<int>(token), " at ", i,
                       ", a line break where it is not set; the tokens of model.gpt2 are below ", vocabulary));
    }
  }
}

void AdmitTextSample(const v1::ModelSpec& model, bool is_sound, v1::TextSampleSpec* text, Findings& findings) {
  if (!model.has_gpt2()) {
    return findings.Wrong("sample.text", "is drawn by model.gpt2 alone");
  }
  if (text->prompt().empty()) text->set_prompt("\n");
  if (text->tokens() == 0) text->set_tokens(200);
  if (!text->has_temperature()) text->set_temperature(1);
  findings.Range("sample.text.tokens", text->tokens(), 1, models::kMaxSampleTokens);
  findings.Real("sample.text.temperature", text->temperature(), 0, kMaxTemperature);
  if (!text->merges().empty()) {
    return findings.Unsupported("sample.text.merges", "the text of a sample is of bytes; leave it out");
  }
  if (!is_sound) {
    return;
  }
  const int64_t vocabulary = model.gpt2().vocab_size();
  if (vocabulary > models::kByteVocabulary) {
    return findings.Wrong("sample.text", absl::StrCat("takes every token for a byte; model.gpt2.vocab_size is ",
                                                      vocabulary, ", and must be at most ", models::kByteVocabulary));
  }
  findings.Range("sample.text.top_k", text->top_k(), 0, vocabulary);
  AdmitPrompt(text->prompt(), vocabulary, findings);
}

void AdmitImageSample(const v1::ModelSpec& model, bool is_sound, v1::ImageSampleSpec* images, Findings& findings) {
  if (!model.has_dcgan()) {
    return findings.Wrong("sample.images", "are drawn by model.dcgan alone");
  }
  if (images->rows() == 0) images->set_rows(8);
  const int64_t channels = model.dcgan().channels();
  if (!is_sound) {
    return;
  }
  if (channels != 1 && channels != 3) {
    return findings.Wrong("sample.images", absl::StrCat("are grey or coloured, of 1 channel or 3; "
                                                        "model.dcgan.channels is ",
                                                        channels));
  }
  findings.Range("sample.images.rows", images->rows(), 1, models::MaxSampleRows(model.dcgan().image_size(), channels));
}

}  // namespace

void AdmitSample(v1::JobSpec* spec, const graph::Graph* model, Findings& findings) {
  if (!spec->has_sample()) {
    return;
  }
  v1::SampleSpec* const sample = spec->mutable_sample();
  findings.Range("sample.every_steps", sample->every_steps(), 0, int64_t{1} << 40);
  switch (sample->kind_case()) {
    case v1::SampleSpec::kText:
      return AdmitTextSample(spec->model(), model != nullptr, sample->mutable_text(), findings);
    case v1::SampleSpec::kImages:
      return AdmitImageSample(spec->model(), model != nullptr, sample->mutable_images(), findings);
    case v1::SampleSpec::KIND_NOT_SET:
      findings.Wrong("sample", "must have one of text, images");
  }
}

}  // namespace ampd::server
