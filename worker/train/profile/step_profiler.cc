#include "worker/train/profile/step_profiler.h"

#include <ATen/record_function.h>
#include <torch/csrc/autograd/profiler_kineto.h>

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <exception>
#include <filesystem>
#include <set>
#include <system_error>
#include <unordered_set>
#include <utility>

#include "absl/cleanup/cleanup.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/str_replace.h"
#include "base/error.h"
#include "base/formats/gzip.h"
#include "base/io/file.h"
#include "base/status_macros.h"

namespace ampd::train {
namespace {

namespace impl = torch::profiler::impl;

constexpr int64_t kMaxTraceBytes = int64_t{1} << 30;

impl::ProfilerConfig Config() {
  return impl::ProfilerConfig(impl::ProfilerState::KINETO, /*report_input_shapes=*/true);
}

std::set<impl::ActivityType> Activities(bool on_gpu) {
  return on_gpu ? std::set<impl::ActivityType>{impl::ActivityType::CPU, impl::ActivityType::CUDA}
                : std::set<impl::ActivityType>{impl::ActivityType::CPU};
}

// Saves the profile at `path` and returns its text, without the path that Kineto writes into it.
absl::StatusOr<std::string> SavedTrace(torch::autograd::profiler::ProfilerResult& result, const std::string& path) {
  result.save(path);
  absl::StatusOr<std::string> trace = ReadFile(path, kMaxTraceBytes);
  if (!trace.ok()) {
    return WithPrefix("PyTorch's profiler wrote no file that can be read", trace.status());
  }
  if (!absl::EndsWith(absl::StripTrailingAsciiWhitespace(*trace), "}")) {
    return absl::DataLossError("PyTorch's profiler wrote a file without its end");
  }
  return absl::StrReplaceAll(*trace, {{path, "trace.json"}});
}

}  // namespace

absl::Status StepProfiler::Begin() {
  try {
    torch::autograd::profiler::prepareProfiler(Config(), Activities(on_gpu_));
    const std::unordered_set<at::RecordScope> scopes = {at::RecordScope::FUNCTION, at::RecordScope::BACKWARD_FUNCTION,
                                                        at::RecordScope::USER_SCOPE};
    torch::autograd::profiler::enableProfiler(Config(), Activities(on_gpu_), scopes);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("PyTorch's profiler did not begin: ", error.what()));
  }
  is_recording_ = true;
  num_steps_ = 0;
  return absl::OkStatus();
}

void StepProfiler::Run(int64_t step, const std::function<void()>& body) {
  if (!is_recording_) {
    return body();
  }
  RECORD_USER_SCOPE(absl::StrCat("ProfilerStep#", step));
  body();
  ++num_steps_;
  last_step_ = step;
}

absl::StatusOr<std::string> StepProfiler::End() {
  is_recording_ = false;
  try {
    const auto result = torch::autograd::profiler::disableProfiler();
    if (result == nullptr) {
      return absl::InternalError("PyTorch's profiler recorded nothing");
    }
    std::string folder = folder_ + "/profile-XXXXXX";
    if (mkdtemp(folder.data()) == nullptr) {
      return ErrnoError(errno, "make a folder for the profile");
    }
    const absl::Cleanup remove = [&folder] {
      std::error_code error;
      std::filesystem::remove_all(folder, error);
    };
    AMPD_ASSIGN_OR_RETURN(std::string trace, SavedTrace(*result, folder + "/trace.json"));
    return Gzip(trace);
  } catch (const std::exception& error) {
    return absl::InternalError(absl::StrCat("PyTorch's profiler gave no file: ", error.what()));
  }
}

void StepProfiler::Drop() {
  if (!std::exchange(is_recording_, false)) {
    return;
  }
  try {
    torch::autograd::profiler::disableProfiler();
  } catch (const std::exception& error) {
    std::fprintf(stderr, "the profiler could not be ended: %s\n", error.what());
  }
}

std::vector<v1::Sample> ProfileSamples(const std::string& profile, int64_t step) {
  const size_t num_parts = (profile.size() + kMaxProfileFileBytes - 1) / kMaxProfileFileBytes;
  const int num_digits = static_cast<int>(absl::StrCat(num_parts).size());
  std::vector<v1::Sample> samples;
  for (size_t part = 0; part < num_parts; ++part) {
    v1::Sample& sample = samples.emplace_back();
    sample.set_step(step);
    sample.set_file_name(absl::StrFormat("profile-%0*d.json.gz", num_digits, part + 1));
    sample.set_media_type("application/gzip");
    sample.set_content(profile.substr(part * kMaxProfileFileBytes, kMaxProfileFileBytes));
  }
  return samples;
}

}  // namespace ampd::train
