#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "ampd/v1/worker_service.pb.h"

namespace ampd::train {

// Maximum size of one part of a profile. A part is sent as a sample, and the server accepts no larger sample.
inline constexpr size_t kMaxProfileFileBytes = size_t{1} << 20;

// Records some steps with PyTorch's profiler (Kineto). The recording shows what each op of LibTorch does on the CPU
// and, if the job runs on a GPU, also the GPU kernels and copies of the op. Only the calling thread's ops are recorded,
// with the shapes of their arguments. Single-threaded.
class StepProfiler {
 public:
  // `folder`: an existing folder, in which the profiler makes temporary files.
  StepProfiler(std::string folder, bool on_gpu) : folder_(std::move(folder)), on_gpu_(on_gpu) {}
  // Drops what was recorded.
  ~StepProfiler() { Drop(); }
  StepProfiler(const StepProfiler&) = delete;
  StepProfiler& operator=(const StepProfiler&) = delete;

  // Starts the recording. Returns an error if the profiler can't start. REQUIRES: !is_recording(), and no work of an
  // earlier step is pending on the device.
  absl::Status Begin();
  // Runs one step. While recording, the profile shows the step as "ProfilerStep#<step>".
  void Run(int64_t step, const std::function<void()>& body);
  // Ends the recording and returns it: a gzip file in the format of Chrome's trace viewer. REQUIRES: is_recording(),
  // and all work of the recorded steps is done. Returns an error if the profiler gave no file.
  absl::StatusOr<std::string> End();
  // Ends the recording without a result. Throws nothing.
  void Drop();

  bool is_recording() const { return is_recording_; }
  int num_steps() const { return num_steps_; }      // Steps since Begin.
  int64_t last_step() const { return last_step_; }  // Number of the last step that ran since Begin.

 private:
  const std::string folder_;
  const bool on_gpu_;
  bool is_recording_ = false;
  int num_steps_ = 0;
  int64_t last_step_ = 0;
};

// Splits a profile into samples of the step `step`, each of at most kMaxProfileFileBytes. They are named
// "profile-<part>.json.gz", with parts numbered from 1. All part numbers have the same number of digits, so that
// sorting by name gives the order of the parts.
std::vector<v1::Sample> ProfileSamples(const std::string& profile, int64_t step);

}  // namespace ampd::train
