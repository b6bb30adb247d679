#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "absl/status/statusor.h"
#include "ampd/v1/job.pb.h"
#include "client/api/job_client.h"
#include "client/api/transfer.h"

namespace ampd::client {

struct DownloadedCheckpoint {
  int64_t num_files = 0;  // number of files, the manifest included
  int64_t size_bytes = 0;
};

// Downloads a checkpoint of the job into `folder`, which is created if it does not exist. Downloads the manifest, and
// every other file for which `wants` returns true; if `wants` is null, all files. The manifest must match the digest
// that the server recorded. The name of an incomplete file ends in ".partial"; the file gets its own name once its
// digest matches the manifest. The manifest is written last, so a folder with a manifest is complete. To resume an
// interrupted download, call again with the same folder.
//
// ALREADY_EXISTS if the folder has other files: files with other names or, if it has no manifest, a complete file with
// the name of a checkpoint's file and another content. DATA_LOSS if the worker's files are not those that the job
// saved; otherwise the server's errors, and errors of the file system, which name the path.
absl::StatusOr<DownloadedCheckpoint> DownloadCheckpoint(JobClient* client, const std::string& job,
                                                        const v1::Checkpoint& checkpoint, const std::string& folder,
                                                        const std::function<bool(const std::string& file)>& wants,
                                                        const TransferOptions& options);

}  // namespace ampd::client
