#include "server/rpc/calls/call_memory.h"

#include <algorithm>
#include <iterator>

#include "absl/time/time.h"
#include "base/error.h"

namespace ampd::server {
namespace {

constexpr std::string_view kLargeMethods[] = {"ampd.v1.ArtifactService/DownloadArtifact",
                                              "ampd.v1.ArtifactService/UploadArtifact",
                                              "ampd.v1.JobService/CloneJob",
                                              "ampd.v1.JobService/CreateJob",
                                              "ampd.v1.JobService/DownloadCheckpointFile",
                                              "ampd.v1.JobService/EstimateJob",
                                              "ampd.v1.JobService/TailLogs",
                                              "ampd.v1.JobService/WatchJob"};

constexpr absl::Duration kRetryDelay = absl::Seconds(5);

}  // namespace

bool TakesMuchMemory(std::string_view method) {
  return std::find(std::begin(kLargeMethods), std::end(kLargeMethods), method) != std::end(kLargeMethods);
}

absl::Status CheckMemoryFor(std::string_view method, bool has_memory) {
  return has_memory || !TakesMuchMemory(method)
             ? absl::OkStatus()
             : WithRetryDelay(Error(absl::StatusCode::kResourceExhausted, "SERVER_MEMORY",
                                    "the server's memory is above its limit, so it takes no new jobs and streams now; "
                                    "call again later"),
                              kRetryDelay);
}

}  // namespace ampd::server
