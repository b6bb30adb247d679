#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "base/clock.h"
#include "client/commands/arguments.h"
#include "client/commands/call.h"
#include "client/commands/job/job.h"
#include "client/commands/job/job_answer.h"
#include "client/render/format.h"
#include "client/render/plot.h"
#include "client/render/watch_screen.h"
#include "client/terminal/output.h"
#include "client/terminal/standard_streams.h"

namespace ampd::client {
namespace {

constexpr int kMostHistogram = 40;  // columns
constexpr int kLeastHistogram = 8;

struct GradientsOptions {
  std::string id;
  absl::Duration timeout = absl::Minutes(1);
};

std::string ShareOf(int64_t count, int64_t all) {
  return count == 0 ? "-" : absl::StrFormat("%.1f%%", 100.0 * static_cast<double>(count) / static_cast<double>(all));
}

std::string PercentOf(double share) { return share == 0 ? "-" : absl::StrFormat("%.1f%%", 100 * share); }

// Returns three shares as percentages, with "-" for 0: "0.1% / 12.0% / -".
std::string PercentTriple(double a, double b, double c) {
  return absl::StrCat(PercentOf(a), " / ", PercentOf(b), " / ", PercentOf(c));
}

std::vector<std::string> Fp8RowOf(const v1::GradientSamples::Module& module) {
  const v1::GradientSamples::Fp8& fp8 = module.fp8();
  return {Printable(module.module()),
          absl::StrCat(fp8.step()),
          PercentTriple(fp8.input_underflow(), fp8.weight_underflow(), fp8.gradient_underflow()),
          PercentTriple(fp8.input_saturation(), fp8.weight_saturation(), fp8.gradient_saturation()),
          PercentTriple(fp8.forward_error(), fp8.input_gradient_error(), fp8.weight_gradient_error()),
          fp8.demoted() ? "no longer computed in FP8" : ""};
}

// Returns a row's cells except its histogram.
std::vector<std::string> RowOf(const v1::GradientSamples::Module& module) {
  const int last = module.least_exponent() + module.counts_size() - 1;
  return {Printable(module.module()),
          Printable(module.dtype()),
          absl::StrCat(module.num_elements()),
          ShareOf(module.num_zero(), module.num_elements()),
          ShareOf(module.num_subnormal(), module.num_elements()),
          ShareOf(module.num_non_finite(), module.num_elements()),
          module.counts().empty() ? "-" : absl::StrCat("2^", module.least_exponent(), "..2^", last)};
}

// Returns the number of columns that remain for the histograms on the terminal. A histogram must fit, because it is
// never wrapped or truncated.
int HistogramWidth(const std::vector<std::string>& headings, const std::vector<std::vector<std::string>>& rows) {
  constexpr int kGap = 2;
  if (OutputWidth() == 0) {
    return kMostHistogram;
  }
  int used = 0;
  for (size_t i = 0; i + 1 < headings.size(); ++i) {
    int width = DisplayWidth(headings[i]);
    for (const std::vector<std::string>& row : rows) {
      width = std::max(width, DisplayWidth(row[i]));
    }
    used += width + kGap;
  }
  return std::clamp(OutputWidth() - used, kLeastHistogram, kMostHistogram);
}

// Shows the effect of FP8 on the layers that use it.
void ShowFp8(const Session& session, const v1::GradientSamples& gradients) {
  std::vector<std::vector<std::string>> rows;
  for (const auto& module : gradients.modules()) {
    if (module.has_fp8()) {
      rows.push_back(Fp8RowOf(module));
    }
  }
  const std::vector<std::string> headings = {"MODULE IN FP8", "AT STEP", "BECAME ZERO", "SATURATED", "ERROR", ""};
  if (!rows.empty()) {
    PrintTable(session, headings, rows);
  }
}

void ShowGradients(const Session& session, const v1::Event& event) {
  if (PrintStructured(session, event)) {
    return;
  }
  std::vector<std::vector<std::string>> rows;
  for (const auto& module : event.gradients().modules()) {
    rows.push_back(RowOf(module));
  }
  const std::vector<std::string> headings = {"MODULE",    "FORMAT",     "ELEMENTS",  "ZERO",
                                             "LOST BITS", "NOT FINITE", "EXPONENTS", "HISTOGRAM"};
  const int width = HistogramWidth(headings, rows);
  for (int i = 0; i < event.gradients().modules_size(); ++i) {
    const auto& counts = event.gradients().modules(i).counts();
    rows[i].push_back(Sparkline({counts.begin(), counts.end()}, std::min(counts.size(), width), session.ascii()));
  }
  PrintTable(session, headings, rows);
  ShowFp8(session, event.gradients());
  WriteFormatted("%s\n", RenderEvent(event).c_str());
}

int Gradients(Session* session, const GradientsOptions& options) {
  Cancellation* const interrupt = session->CancelledByInterrupt();
  return CallForJob(
      session, options.id,
      [&](JobClient* client, const std::string& id) {
        JobRequest request = {.answer = v1::Event::GRADIENTS_SAMPLED,
                              .thing = "its gradients",
                              .asked = "be asked for its gradients",
                              .program = session->Program()};
        request.request.set_id(id);
        request.request.mutable_update_mask()->add_paths("sample_gradients");
        request.request.set_sample_gradients(true);
        return AwaitAnswer(client, request, SystemClock().SinceBoot() + options.timeout, interrupt);
      },
      [&](const std::string& /*id*/, const v1::Event& event) { ShowGradients(*session, event); });
}

}  // namespace

Command GradientsOfJobCommand() {
  const auto options = std::make_shared<GradientsOptions>();
  return {.name = "gradients",
          .help =
              "Show how well the gradients of a running job fit their number format: how many are zero, subnormal (so "
              "small that they lose precision) or not finite",
          .examples =
              "  ampctl job gradients ID\n"
              "  ampctl job gradients ID -o json | jq '.gradients.suggestedScale'",
          .formats = AllFormatsBut({OutputFormat::kWide, OutputFormat::kName}),
          .arguments = {JobId(&options->id),
                        {.name = "--timeout",
                         .value = &options->timeout,
                         .text = "DURATION",
                         .help = "Give up after this time, with exit code 7 (default 1m)"}},
          .run = [options](Session* session) { return Gradients(session, *options); }};
}

}  // namespace ampd::client
