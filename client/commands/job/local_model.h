#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "absl/time/time.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/terminal/session.h"

namespace ampd::client {

// A model file on this machine that a job file names: a model.exported.path that begins with "./", "../" or "/". A path
// that begins with "./" or "../" is relative to the job file's folder. A path on a worker can't be mistaken for a local
// path, because it begins with the name of a data root.
struct LocalModel {
  std::string sha256;  // digest of the file; empty: the job file names no local model file
  bool is_uploaded = false;
};

// Uploads the local model file that `spec` names, unless the server already has it, and replaces the path in `spec` by
// the artifact. With `dry_run` it uploads nothing: if the server does not have the file, `spec` gets a placeholder
// path, so that the server can check the rest of the spec. ShowAsUploaded then replaces the placeholder by the
// artifact. If torch.export did not write the file, returns an error with a violation of the field model.exported.path.
// `job_file` is the job file's path, or "-" for standard input. REQUIRES: Session::CancelledByInterrupt() is called
// before Session::Client().
absl::StatusOr<LocalModel> UploadLocalModel(Session* session, const std::string& job_file, bool dry_run,
                                            absl::Duration retry_for, v1::JobSpec* spec);
void ShowAsUploaded(const LocalModel& model, v1::JobSpec* spec);

}  // namespace ampd::client
