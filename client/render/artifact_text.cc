#include "client/render/artifact_text.h"

#include "absl/strings/str_cat.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr char kNothing[] = "-";

std::string OrNothing(const std::string& text) { return text.empty() ? kNothing : Printable(text); }

absl::Time TimeOf(const v1::Artifact& artifact) {
  return absl::FromUnixSeconds(artifact.create_time().seconds()) + absl::Nanoseconds(artifact.create_time().nanos());
}

}  // namespace

std::vector<std::string> ArtifactHeadings(bool wide) {
  std::vector<std::string> headings = {"NAME", "SIZE", "FILE", "JOB", "CREATED"};
  if (wide) {
    headings.insert(headings.end(), {"TYPE", "SHA256"});
  }
  return headings;
}

std::vector<std::string> ArtifactRow(const v1::Artifact& artifact, bool wide, absl::Time now) {
  std::vector<std::string> row = {OrNothing(artifact.name()), FormatBytes(artifact.size_bytes()),
                                  OrNothing(artifact.file_name()), OrNothing(artifact.job_id()),
                                  artifact.has_create_time() ? FormatSpan(now - TimeOf(artifact)) + " ago" : kNothing};
  if (wide) {
    row.insert(row.end(), {OrNothing(artifact.media_type()), OrNothing(artifact.sha256())});
  }
  return row;
}

}  // namespace ampd::client
