#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "ampd/v1/job_spec.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "worker/amp/engine.h"

namespace ampd::train {

// The server's limit for a file.
inline constexpr int64_t kMaxPredictionFileBytes = int64_t{1} << 20;

// Writes the predictions of a job into files, as PredictSpec describes them. Gives each file to `sink` once it is full.
// Names and contents depend only on the predictions, not on how batches cut them. Single-threaded.
class PredictionFiles {
 public:
  using Sink = std::function<absl::Status(v1::Sample)>;

  PredictionFiles(v1::PredictSpec::Format format, Sink sink) : format_(format), sink_(std::move(sink)) {}

  // Adds the predictions of the next samples, which `step` made. Returns the sink's errors, and INVALID_ARGUMENT
  // (reason SPEC_ERROR) if the prediction of a single sample is larger than a file. REQUIRES: every call has the same
  // outputs, with the same shapes except for the number of samples.
  absl::Status Add(int64_t step, const std::vector<amp::Prediction>& batch);
  // Gives the last file to the sink. Does nothing if no sample is left.
  absl::Status Finish();

  int64_t num_samples() const { return num_samples_; }
  int num_files() const { return num_files_; }

 private:
  // The collected rows of one output, for an .npz file.
  struct Column {
    std::string name;
    at::ScalarType type;
    std::vector<int64_t> row_shape;
    std::string content;
  };

  // Sets rows_per_file_ for rows like those of `batch`.
  void PlanFiles(const std::vector<amp::Prediction>& batch);
  absl::Status AddRow(const std::vector<amp::Prediction>& batch, int64_t row);
  absl::Status Flush();
  absl::StatusOr<std::string> Content();

  const v1::PredictSpec::Format format_;
  const Sink sink_;
  int64_t step_ = 0;  // The step of the last sample that was added.
  int64_t num_samples_ = 0;
  int num_files_ = 0;
  int64_t first_ = 0;      // Index of the first sample of the file that is being collected.
  int64_t num_bytes_ = 0;  // Bytes of its rows.
  // Rows of a full file. It depends on the names and shapes of the outputs alone, not on the digits of their numbers,
  // so that every attempt makes the same files, on any device. 0: not planned yet.
  int64_t rows_per_file_ = 0;
  std::string lines_;            // JSON_LINES
  std::vector<Column> columns_;  // NPZ
};

}  // namespace ampd::train
