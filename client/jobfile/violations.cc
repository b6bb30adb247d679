#include "client/jobfile/violations.h"

#include <optional>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/spec_fields.h"

namespace ampd::client {
namespace {

// Returns the path around a path: from "a.b[2].c" to "a.b[2]", to "a.b", to "a", to "".
std::string Enclosing(const std::string& path) {
  const size_t cut = path.find_last_of(".[");
  return cut == std::string::npos ? "" : path.substr(0, cut);
}

// Returns the text between the quotes of a description that begins with `is "`; nothing if it does not.
std::optional<std::string> RefusedText(const std::string& description) {
  constexpr absl::string_view kBegin = "is \"";
  const size_t end = description.find("\"; ");
  return absl::StartsWith(description, kBegin) && end != std::string::npos && end >= kBegin.size()
             ? std::optional(description.substr(kBegin.size(), end - kBegin.size()))
             : std::nullopt;
}

// The server describes a field that is not set as one with the value 0 or an empty text. Returns the description of
// such a field with other words: "is not set; it must be 1 to 9" for "is 0; must be 1 to 9". Empty if the description
// has another form.
std::string AsUnset(absl::string_view description) {
  const bool is_unset = absl::ConsumePrefix(&description, "is 0; ") || absl::ConsumePrefix(&description, "is \"\"; ");
  return is_unset && absl::StartsWith(description, "must be ") ? absl::StrCat("is not set; it ", description) : "";
}

// Returns the value that was probably meant in place of the one that the server refused; empty if there is none.
std::string MeantValue(const FieldViolation& violation, const SourceMark& place) {
  const std::optional<std::string> refused = RefusedText(violation.description);
  if (!refused.has_value()) {
    return "";
  }
  if (absl::StrContains(violation.description, "; presets are ")) {
    return NearestPreset(*refused);
  }
  // The shell removes quotes. Those that reach ampctl are part of the value.
  const bool is_quoted = refused->size() > 2 && refused->front() == refused->back() &&
                         (refused->front() == '"' || refused->front() == '\'');
  return is_quoted && place.line == 0 ? refused->substr(1, refused->size() - 2) : "";
}

}  // namespace

std::vector<Problem> PlaceViolations(const std::vector<FieldViolation>& violations, const JobFile& file,
                                     const std::string& source) {
  std::vector<Problem> problems;
  for (const FieldViolation& violation : violations) {
    std::string path = violation.field.starts_with("spec.") ? violation.field.substr(5) : violation.field;
    const std::string field = path;
    auto mark = file.marks.find(path);
    while (mark == file.marks.end() && !path.empty()) {
      path = Enclosing(path);
      mark = file.marks.find(path);
    }
    const SourceMark place = mark == file.marks.end() ? SourceMark{source, 0, 0} : mark->second;
    // If the file does not set the field, `place` is the position of a field that contains it. Then the message says
    // that the file does not set the field.
    const bool missing = path != field && !absl::StartsWith(violation.description, "must ") &&
                         !absl::StartsWith(violation.description, "is not set");
    const std::string unset = missing ? AsUnset(violation.description) : "";
    const std::string message =
        !unset.empty() ? absl::StrCat(field, ": ", unset)
        : field.empty()
            ? violation.description  // a violation without a field: how many further violations were left out
            : absl::StrCat(field, ": ", violation.description, missing ? " (the file does not set it)" : "");
    problems.push_back({place, field, message, missing ? "" : MeantValue(violation, place)});
    if (place.source == source) {
      ExplainLookAlikeIn(file.look_alikes, &problems.back());
    }
  }
  return problems;
}

}  // namespace ampd::client
