#pragma once

#include "client/api/artifact_transfer.h"
#include "client/terminal/progress_line.h"
#include "client/terminal/session.h"

// Transfers of files with a progress bar.
namespace ampd::client {

// Returns the options of a transfer that shows its progress in `line`. REQUIRES: `line` outlives the transfer.
inline TransferOptions OptionsWithBar(ProgressLine* line, absl::Duration retry_for, Cancellation* cancellation) {
  return {retry_for, cancellation, [line](int64_t num_done, int64_t num_bytes) {
            line->Show(num_bytes > 0 ? static_cast<double>(num_done) / static_cast<double>(num_bytes) : 1);
          }};
}

inline absl::StatusOr<v1::Artifact> UploadWithBar(Session* session, JobClient* client, const LocalFile& file,
                                                  absl::Duration retry_for, Cancellation* cancellation) {
  ProgressLine line(*session);
  return UploadFile(client, file, OptionsWithBar(&line, retry_for, cancellation));
}

}  // namespace ampd::client
