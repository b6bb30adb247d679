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

// The maximum size of a file that the server accepts.
inline constexpr int64_t kMaxPredictionFileBytes = int64_t{1} << 20;

// Writes the predictions of a job into files, as PredictSpec describes them. Calls `sink` with each file that is full.
// The names and contents of the files depend only on the predictions, not on the batch size. Single-threaded.
class PredictionFiles {
 public:
  using Sink = std::function<absl::Status(v1::Sample)>;

  PredictionFiles(v1::PredictSpec::Format format, Sink sink) : format_(format), sink_(std::move(sink)) {}

  // Adds the predictions of the next samples, which were made in step `step`. Returns the errors of `sink`, and
  // INVALID_ARGUMENT (reason SPEC_ERROR) if the prediction of a single sample is larger than a file may be. REQUIRES:
  // every call has the same outputs, with the same shapes except for the number of samples.
  absl::Status Add(int64_t step, const std::vector<amp::Prediction>& batch);
  // Calls `sink` with the last file. Does nothing if all samples are in earlier files.
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

  // Computes rows_per_file_ from the names, types and shapes in `batch`, which are the same in all batches.
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
  int64_t num_bytes_ = 0;  // Bytes of the rows in that file.
  // Maximum number of rows in a file; 0: not computed yet. It depends only on the names and shapes of the outputs, not
  // on the lengths of their numbers as text. So every attempt cuts the files at the same rows, on any device.
  int64_t rows_per_file_ = 0;
  std::string lines_;            // Rows of a file of JSON lines.
  std::vector<Column> columns_;  // Rows of an .npz file.
};

}  // namespace ampd::train
