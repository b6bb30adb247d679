#include "client/commands/job/refusal.h"

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "base/error.h"
#include "client/commands/job_source.h"
#include "client/jobfile/violations.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

constexpr char kAboutPredictFile[] =
    "to write a file that names the input data: echo 'data: {predict: {npz: {file: data/new.npz}}}' > data.yaml";

// Returns the field violations of a status. The error of an older server for an unsupported field has no violations,
// only the field's name in its metadata; for such an error, makes one violation from that name.
std::vector<FieldViolation> ViolationsIn(const absl::Status& status) {
  const ErrorMetadata metadata = MetadataOf(status);
  const auto field = metadata.find("field");
  std::vector<FieldViolation> violations = ViolationsOf(status);
  if (!violations.empty() || ReasonOf(status) != "UNSUPPORTED_FIELD" || field == metadata.end()) {
    return violations;
  }
  return {{field->second, std::string(absl::StripPrefix(status.message(), field->second + " "))}};
}

// In violations, replaces the field `artifact` by `path`. The job file names a local model by `path`, but the request,
// which the server checked, names it by `artifact`.
void NameAsLocal(const LocalModel& model, std::vector<FieldViolation>* violations) {
  for (FieldViolation& violation : *violations) {
    if (!model.sha256.empty() && violation.field == "model.exported.artifact") {
      violation.field = "model.exported.path";
    }
  }
}

// Returns a note for each part of the file that an override replaced. An override may be the cause of an error, because
// the rest of the file may suit only the part that was replaced.
std::vector<std::string> NotesOn(const JobFile& file) {
  std::vector<std::string> notes;
  for (const Replacement& replacement : file.replaced) {
    notes.push_back(absl::StrCat(replacement.by, " replaced ", replacement.path, " of ", replacement.mark.ToString(),
                                 "; the other fields of the file still apply"));
  }
  return notes;
}

// Whether the server refuses a field because of another one whose value could not be read, and which the server
// therefore did not get.
bool FollowsFromUnread(const FieldViolation& violation, const JobFile& file) {
  return std::any_of(file.problems.begin(), file.problems.end(), [&violation](const Problem& problem) {
    return !problem.field.empty() &&
           (NamesField(violation.description, problem.field) || NamesFieldWithin(violation.description, problem.field));
  });
}

// Whether the file sets the violated field, and the whole value could be read. A part of the value that could not be
// read was not sent to the server. So what the server says of the field, such as that a part is missing, may be wrong.
bool IsOfReadField(const FieldViolation& violation, const JobFile& file) {
  const std::string field(absl::StripPrefix(violation.field, "spec."));
  const bool is_local_model =
      absl::StartsWith(field, "model.exported");  // ampctl uploads it before it submits the job.
  return file.marks.contains(field) && !is_local_model &&
         std::none_of(file.problems.begin(), file.problems.end(), [&field](const Problem& problem) {
           return problem.field == field || absl::StartsWith(problem.field, field + ".") ||
                  absl::StartsWith(problem.field, field + "[");
         });
}

// Asks the server to check the fields that could be read, and adds the violations that the server reports, so that the
// user sees all problems of the file at once. Adds nothing if the server does not answer. `has_weights`: the command
// line names the weights, so it is no problem that the file lacks them.
void AddWhatServerRefuses(Session* session, bool has_weights, SubmittedFile* submitted) {
  const auto client = session->Client();
  if (!client.ok()) {
    return;
  }
  v1::CreateJobRequest request;
  *request.mutable_spec() = submitted->file.spec;
  request.set_validate_only(true);
  const auto job = (*client)->CreateJob(request, {.retry_for = absl::ZeroDuration()});
  std::vector<FieldViolation> violations = job.ok() ? std::vector<FieldViolation>() : ViolationsIn(job.status());
  std::erase_if(violations, [&](const FieldViolation& one) {
    const bool lacks_weights = one.field == "predict" && absl::StartsWith(one.description, "needs weights");
    return (has_weights && lacks_weights) || !IsOfReadField(one, submitted->file) ||
           FollowsFromUnread(one, submitted->file);
  });
  std::vector<Problem> problems = PlaceViolations(violations, submitted->file, submitted->source);
  submitted->file.problems.insert(submitted->file.problems.end(), std::make_move_iterator(problems.begin()),
                                  std::make_move_iterator(problems.end()));
}

}  // namespace

OrExitCode<SubmittedFile> ReadSubmittedFile(Session* session, const FileToRead& to_read) {
  const auto text = to_read.has_weights ? ReadSource(to_read.path, kAboutPredictFile) : ReadSource(to_read.path);
  if (!text.ok()) {
    return session->Fail(text.status());
  }
  // The command that the error message suggests would lack the user's overrides and name. If there are any, suggest
  // none; the message then says to repeat the command.
  const bool is_as_written = to_read.overrides.empty() && to_read.name.empty() && !to_read.command.empty();
  SubmittedFile submitted = {
      .source = to_read.path == "-" ? "stdin" : to_read.path,
      .command = is_as_written ? CommandWithFile(to_read.command, to_read.path, to_read.end_of_command) : ""};
  submitted.file = ReadJobFile(*text, submitted.source, to_read.overrides, to_read.name);
  if (submitted.file.problems.empty()) {
    return submitted;
  }
  if (!submitted.file.marks.empty() && !submitted.file.has_rivals) {
    AddWhatServerRefuses(session, to_read.has_weights, &submitted);
  }
  return FailWithProblems(submitted.file.problems, {.command = submitted.command});
}

void NoteReplaced(const Session& session, const SubmittedFile& submitted) {
  for (const std::string& note : NotesOn(submitted.file)) {
    session.Note("note: " + Printable(note));
  }
  for (const std::string& note : submitted.file.notes) {
    session.Note("note: " + Printable(note));
  }
}

int FailRefused(Session* session, const absl::Status& status, const SubmittedFile& submitted) {
  std::vector<FieldViolation> violations = ViolationsIn(status);
  NameAsLocal(submitted.model, &violations);
  return violations.empty() ? session->Fail(status)
                            : FailWithProblems(PlaceViolations(violations, submitted.file, submitted.source),
                                               {.command = submitted.command, .notes = NotesOn(submitted.file)});
}

}  // namespace ampd::client
