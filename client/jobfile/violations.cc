#include "client/jobfile/violations.h"

#include <optional>
#include <set>

#include "absl/functional/function_ref.h"
#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "client/jobfile/meant_value.h"
#include "client/jobfile/problems_text.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_scalar.h"

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

// Returns the description with the field's value as the user wrote it: "is '100000d'; must be ..." for
// "is 2400000h; must be ...". `text` is empty if the user did not set the field, or if it is a string field, whose
// value the server shows as written.
std::string WithWrittenValue(const std::string& description, const std::string& text) {
  constexpr size_t kBegin = 3;  // the length of "is "
  const size_t end = description.find("; ");
  const bool names_number = absl::StartsWith(description, "is ") && end != std::string::npos && end > kBegin &&
                            absl::StrContains("-0123456789", description.substr(kBegin, 1)) &&
                            !absl::StrContains(description.substr(kBegin, end - kBegin), " ");
  return names_number && !text.empty() && description.substr(kBegin, end - kBegin) != text
             ? absl::StrCat("is '", Shortened(text, kMaxShownText), "'", description.substr(end))
             : description;
}

bool IsOfPath(char c) { return absl::ascii_isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.'; }

// Whether the path stands in the text, and `may_follow` accepts the character after it, or '\0' at the text's end.
bool HasPath(const std::string& text, const std::string& path, absl::FunctionRef<bool(char)> may_follow) {
  for (size_t at = text.find(path); at != std::string::npos; at = text.find(path, at + 1)) {
    const size_t end = at + path.size();
    if ((at == 0 || !IsOfPath(text[at - 1])) && may_follow(end == text.size() ? '\0' : text[end])) {
      return true;
    }
  }
  return false;
}

// Returns the overrides that set fields which the description names, except the override at `place`: "; see --set
// eval.every_steps". The description may be about a field that the file sets, and that conflicts with these overrides.
// Empty if there are none.
std::string OverridesIn(const std::string& description, const JobFile& file, const SourceMark& place) {
  std::set<std::string> sources;
  for (const auto& [path, mark] : file.marks) {
    if (absl::StartsWith(mark.source, kSetOption) && mark.source != place.source && NamesField(description, path)) {
      sources.insert(mark.source);
    }
  }
  return sources.empty() ? "" : absl::StrCat("; see ", absl::StrJoin(sources, " and "));
}

}  // namespace

bool NamesField(const std::string& description, const std::string& path) {
  return absl::StrContains(path, '.') &&
         HasPath(description, path, [](char next) { return !IsOfPath(next) && next != '['; });
}

bool NamesFieldWithin(const std::string& description, const std::string& path) {
  return HasPath(description, path, [](char next) { return next == '.' || next == '['; });
}

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
    const auto text = file.texts.find(field);
    const std::string description =
        absl::StrCat(WithWrittenValue(violation.description, text == file.texts.end() ? "" : text->second),
                     OverridesIn(violation.description, file, place));
    const std::string message =
        !unset.empty()  ? absl::StrCat(field, ": ", unset)
        : field.empty() ? description  // a violation without a field: how many further violations were left out
                        : absl::StrCat(field, ": ", description, missing ? " (the file does not set it)" : "");
    problems.push_back({place, field, message, missing ? "" : MeantValue(violation, place)});
    ExplainLookAlikeIn(file.look_alikes, &problems.back());
  }
  return problems;
}

}  // namespace ampd::client
