#include "client/render/artifact_text.h"

#include "absl/strings/str_cat.h"
#include "client/render/csv.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

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

std::vector<std::string> ArtifactCsvHeadings() {
  return {"name", "size_bytes", "file", "job", "create_time", "media_type", "sha256"};
}

std::vector<std::string> ArtifactCsvRow(const v1::Artifact& artifact) {
  return {Printable(artifact.name()),
          absl::StrCat(artifact.size_bytes()),
          Printable(artifact.file_name()),
          Printable(artifact.job_id()),
          CsvTime(artifact.has_create_time(), artifact.create_time()),
          Printable(artifact.media_type()),
          Printable(artifact.sha256())};
}

}  // namespace ampd::client
