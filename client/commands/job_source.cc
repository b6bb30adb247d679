#include "client/commands/job_source.h"

#include <iostream>
#include <iterator>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "base/io/file.h"
#include "client/render/format.h"
#include "client/terminal/exit_codes.h"
#include "client/terminal/standard_streams.h"
#include "precision/example_device.h"

namespace ampd::client {

absl::StatusOr<std::string> ReadSource(const std::string& path) {
  constexpr int64_t kMostRead = int64_t{64} << 20;
  if (path != "-") {
    auto text = ReadFile(path, kMostRead);
    if (!text.ok()) {
      // The message begins with the name of a system call, which is left out.
      const std::vector<std::string> parts = absl::StrSplit(text.status().message(), absl::MaxSplits(": ", 1));
      return absl::InvalidArgumentError(absl::StrCat("cannot read ", path, ": ", parts.back()));
    }
    return text;
  }
  std::string text;
  std::istreambuf_iterator<char> next(std::cin);
  while (next != std::istreambuf_iterator<char>() && text.size() <= kMaxYamlBytes) {
    text.push_back(*next++);
  }
  return text;
}

int FailWithProblems(const std::vector<Problem>& problems, const std::string& source) {
  WriteMessage(ProblemsText(problems, source));
  return kExitUsage;
}

void PrintLines(const std::string& text, const std::string& prefix) {
  for (const auto line : absl::StrSplit(text, '\n', absl::SkipEmpty())) {
    WriteFormatted("%s%s\n", prefix.c_str(), Printable(std::string(line)).c_str());
  }
}

v1::ResolvePolicyRequest PolicyRequestOf(const v1::JobSpec& spec, const std::string& device) {
  v1::ResolvePolicyRequest request;
  *request.mutable_precision() = spec.precision();
  *request.mutable_model() = spec.model();
  *request.mutable_optimizer() = spec.optimizer();
  *request.mutable_device() = device == "cpu" ? precision::ExampleCpu() : precision::ExampleGpu();
  request.mutable_device()->set_id(device);
  const v1::DataSource& data = spec.has_predict() ? spec.data().predict() : spec.data().train();
  request.set_sequence_length(data.has_jsonl() ? data.jsonl().sequence_length() : data.tokens().sequence_length());
  return request;
}

}  // namespace ampd::client
