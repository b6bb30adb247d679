#include "client/jobfile/job_file.h"

#include <algorithm>
#include <optional>
#include <utility>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/strip.h"
#include "base/text.h"
#include "client/jobfile/nearest.h"
#include "client/jobfile/spec_fields.h"
#include "client/jobfile/spec_override.h"
#include "client/jobfile/spec_scalar.h"
#include "client/render/format.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::Message;
using google::protobuf::OneofDescriptor;

constexpr size_t kMaxProblemsShown = 20;
constexpr char kDuration[] = "google.protobuf.Duration";

// The path of a field in two forms: `shown` has the names that the user types, and is for messages; `proto` has the
// names of the proto's fields, and is the key of the field's line and column in JobFile::marks.
struct FieldPath {
  std::string shown;
  std::string proto;

  FieldPath Child(const FieldDescriptor& field) const {
    const std::string dot = proto.empty() ? "" : ".";
    return {shown + dot + FieldName(field), proto + dot + field.name()};
  }
  FieldPath Item(size_t index) const {
    const std::string suffix = absl::StrCat("[", index, "]");
    return {shown + suffix, proto + suffix};
  }
};

// Fills messages from YAML trees by reflection. After a problem it records the problem and continues.
class SpecFiller {
 public:
  explicit SpecFiller(JobFile* file) : file_(file) {}

  void Fill(const YamlNode& node, const FieldPath& path, Message* message) {
    const Descriptor& type = *message->GetDescriptor();
    if (node.kind == YamlNode::Kind::kNull) {
      return;  // "eval:" without a value is valid: an EvalSpec without fields
    }
    if (node.kind != YamlNode::Kind::kMap) {
      ReportNoMapping(node, path, type);
      return;
    }
    std::map<const OneofDescriptor*, std::string> chosen;
    std::map<const FieldDescriptor*, std::string> seen;
    for (const YamlEntry& entry : node.entries) {
      const FieldDescriptor* field = FindField(type, entry.key);
      if (field == nullptr) {
        ReportUnknown(entry, path, type);
      } else if (const auto [first, is_new] = seen.emplace(field, entry.key); !is_new) {
        Report(entry.mark, path.Child(*field).shown,
               absl::StrCat("'", entry.key, "' and '", first->second, "' are one field; write it once"));
      } else if (ChooseInOneof(entry, path, *field, &chosen)) {
        const FieldPath child = path.Child(*field);
        file_->marks[child.proto] = entry.mark;
        FillField(entry.value, child, *field, message);
      }
    }
  }

 private:
  static std::string Shown(const FieldPath& path) { return path.shown.empty() ? "the job file" : path.shown; }

  void Report(SourceMark mark, std::string field, std::string message, std::string nearest = "",
              std::vector<std::string> allowed = {}) {
    file_->problems.push_back(
        {std::move(mark), std::move(field), std::move(message), std::move(nearest), std::move(allowed)});
  }

  static std::string QuotedText(const std::string& text) {
    return absl::StrCat("'", Shortened(text, kMaxShownText), "'");
  }

  // Reports a value where a mapping must be, and suggests what was meant, as for "precision: bf16" or "model: lenet".
  void ReportNoMapping(const YamlNode& node, const FieldPath& path, const Descriptor& type) {
    std::string meant;
    const size_t colon = node.text.find(':');
    if (node.kind == YamlNode::Kind::kScalar && colon != std::string::npos &&
        FindField(type, node.text.substr(0, colon)) != nullptr) {
      meant = absl::StrCat(node.text.substr(0, colon), ": ", Shortened(node.text.substr(colon + 1), kMaxShownText));
    } else if (node.kind == YamlNode::Kind::kScalar && FindField(type, node.text) != nullptr) {
      meant = absl::StrCat("{", node.text, ": {}}");
    } else if (node.kind == YamlNode::Kind::kScalar && type.field(0)->type() == FieldDescriptor::TYPE_STRING &&
               !path.shown.empty()) {
      meant = absl::StrCat("{", FieldName(*type.field(0)), ": ", Shortened(node.text, kMaxShownText), "}");
    }
    const std::string found = node.kind == YamlNode::Kind::kScalar ? QuotedText(node.text) : "a list";
    Report(node.mark, path.shown,
           absl::StrCat(Shown(path), " must be a mapping of fields (", type.name(), "), not ", found), meant,
           FieldNames(type));
  }

  void ReportUnknown(const YamlEntry& entry, const FieldPath& path, const Descriptor& type) {
    const std::string key = entry.key.empty() ? "''" : Shortened(entry.key, kMaxShownText);
    if (entry.key == "<<") {
      Report(
          entry.mark, path.shown,
          "merge keys ('<<') are not supported; write the fields out, or use an alias as a whole value: eval: *train");
      return;
    }
    if (absl::StrContains(entry.key, "\u00a0")) {
      Report(entry.mark, key,
             absl::StrCat(QuotedText(key), " has a no-break space (U+00A0) in it; type a plain space in its place"));
      return;
    }
    constexpr size_t kMostPaths = 3;
    const std::vector<std::string> elsewhere = PathsTo(*v1::JobSpec::descriptor(), entry.key, kMostPaths);
    if (Nearest(entry.key, FieldNames(type)).empty() && !elsewhere.empty()) {
      const std::string here = path.shown.empty() ? "at the top, but there is one further in"
                                                  : absl::StrCat("of ", path.shown, ", but there is one elsewhere");
      Report(entry.mark, key, absl::StrCat(key, " is not a field ", here), elsewhere[0],
             elsewhere.size() > 1 ? elsewhere : std::vector<std::string>());
      return;
    }
    const std::string shown = (path.shown.empty() ? "" : path.shown + ".") + key;
    const std::vector<std::string> names = FieldNames(type);
    Report(entry.mark, shown, absl::StrCat(shown, " is not a field of ", type.name()), Nearest(entry.key, names),
           names);
  }

  bool ChooseInOneof(const YamlEntry& entry, const FieldPath& path, const FieldDescriptor& field,
                     std::map<const OneofDescriptor*, std::string>* chosen) {
    const OneofDescriptor* oneof = field.real_containing_oneof();
    if (oneof == nullptr) {
      return true;
    }
    const auto [other, first] = chosen->emplace(oneof, entry.key);
    if (!first) {
      const FieldPath child = path.Child(field);
      Report(entry.mark, child.shown,
             absl::StrCat(child.shown, " cannot be combined with '", other->second, "': only one of them may be set"));
    }
    return first;
  }

  void FillField(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    if (field.is_map()) {
      FillMap(node, path, field, message);
    } else if (!field.is_repeated()) {
      FillOne(node, path, field, message);
    } else if (node.kind != YamlNode::Kind::kSequence) {
      Report(node.mark, path.shown, absl::StrCat(path.shown, " must be a list: [", TypeWords(field), ", ...]"));
    } else {
      for (size_t i = 0; i < node.items.size(); ++i) {
        file_->marks[path.Item(i).proto] = node.items[i].mark;
        FillOne(node.items[i], path.Item(i), field, message);
      }
    }
  }

  void FillMap(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    if (node.kind != YamlNode::Kind::kMap) {
      Report(node.mark, path.shown, absl::StrCat(path.shown, " must be a mapping of names to text"));
      return;
    }
    const Descriptor& type = *field.message_type();
    for (const YamlEntry& entry : node.entries) {
      const FieldPath item{path.shown + "." + entry.key, path.proto + "." + entry.key};
      file_->marks[item.proto] = entry.mark;
      Message* pair = message->GetReflection()->AddMessage(message, &field);
      pair->GetReflection()->SetString(pair, type.map_key(), entry.key);
      FillOne(entry.value, item, *type.map_value(), pair);
    }
  }

  void FillOne(const YamlNode& node, const FieldPath& path, const FieldDescriptor& field, Message* message) {
    const bool is_message = field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE;
    if (is_message && field.message_type()->full_name() != kDuration) {
      const auto* reflection = message->GetReflection();
      Fill(node, path,
           field.is_repeated() ? reflection->AddMessage(message, &field) : reflection->MutableMessage(message, &field));
      return;
    }
    if (node.kind == YamlNode::Kind::kNull && !node.text.empty() &&
        field.cpp_type() == FieldDescriptor::CPPTYPE_STRING) {
      Report(node.mark, path.shown,
             absl::StrCat(path.shown, " is ", QuotedText(node.text),
                          ", which means no value in YAML; put the text in quotes, or remove the field"));
    } else if (node.kind == YamlNode::Kind::kNull) {
      Report(node.mark, path.shown, absl::StrCat(path.shown, " has no value; it is ", TypeWords(field)));
    } else if (node.kind != YamlNode::Kind::kScalar) {
      Report(node.mark, path.shown,
             absl::StrCat(path.shown, " must be ", TypeWords(field), ", not a ",
                          node.kind == YamlNode::Kind::kMap ? "mapping" : "list"));
    } else if (const auto refusal = SetScalar(node.text, field, message)) {
      Report(node.mark, path.shown, absl::StrCat(path.shown, " ", refusal->message), refusal->nearest,
             refusal->allowed);
    }
  }

  JobFile* const file_;
};

// Returns the path around a path: from "a.b[2].c" to "a.b[2]", to "a.b", to "a", to "".
std::string Enclosing(const std::string& path) {
  const size_t cut = path.find_last_of(".[");
  return cut == std::string::npos ? "" : path.substr(0, cut);
}

std::string AllowedText(const std::vector<std::string>& allowed) {
  constexpr size_t kMaxShown = 24;
  const size_t shown = std::min(allowed.size(), kMaxShown);
  return absl::StrCat("(allowed: ", absl::StrJoin(allowed.begin(), allowed.begin() + shown, ", "),
                      shown < allowed.size() ? ", ...)" : ")");
}

// Returns the problem's message, to be printed after `place`. Removes the field's path from the beginning of the
// message if `place` already ends with the path ("--set PATH").
std::string MessageAfterPlace(const std::string& place, const Problem& problem) {
  absl::string_view message = problem.message;
  if (!problem.field.empty() && absl::EndsWith(place, " " + problem.field) &&
      (absl::ConsumePrefix(&message, problem.field + ": ") || absl::ConsumePrefix(&message, problem.field + " "))) {
    return std::string(message);
  }
  return problem.message;
}

// Returns the problem as lines for people. Uses Printable, because texts from the file may contain terminal control
// sequences.
std::string ProblemText(const Problem& problem) {
  const std::string place = problem.mark.ToString();
  std::string text =
      absl::StrCat("error: ", Printable(place), ": ", Printable(MessageAfterPlace(place, problem)), "\n");
  const std::string allowed = problem.allowed.empty() ? "" : AllowedText(problem.allowed);
  if (!problem.nearest.empty()) {
    absl::StrAppend(&text, "  did you mean '", Printable(problem.nearest), "'?", allowed.empty() ? "" : "   ", allowed,
                    "\n");
  } else if (!allowed.empty()) {
    absl::StrAppend(&text, "  ", allowed, "\n");
  }
  return text;
}

}  // namespace

JobFile ReadJobFile(std::string_view text, const std::string& source, const std::vector<std::string>& overrides) {
  JobFile file;
  std::optional<YamlNode> root = ParseYaml(text, source, &file.problems);
  if (!root.has_value()) {
    return file;
  }
  for (const std::string& assignment : overrides) {
    ApplyOverride(assignment, *v1::JobSpec::descriptor(), &*root, &file.problems);
  }
  if (root->kind == YamlNode::Kind::kNull) {
    file.problems.push_back({{source, 0, 0}, "", "the file is empty", "", {}});
    return file;
  }
  SpecFiller(&file).Fill(*root, {}, &file.spec);
  return file;
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
    const bool missing = path != field && !absl::StartsWith(violation.description, "must ");
    const std::string message =
        field.empty() ? violation.description  // a violation without a field: how many further violations were left out
                      : absl::StrCat(field, ": ", violation.description, missing ? " (the file does not set it)" : "");
    problems.push_back({place, field, message, "", {}});
  }
  return problems;
}

std::string ProblemsText(const std::vector<Problem>& problems, const std::string& source) {
  std::string text;
  const size_t shown = std::min(problems.size(), kMaxProblemsShown);
  for (size_t i = 0; i < shown; ++i) {
    text += ProblemText(problems[i]);
  }
  if (shown < problems.size()) {
    absl::StrAppend(&text, "error: and ", problems.size() - shown, " more problems\n");
  }
  absl::StrAppend(&text, "  try: correct ", problems.size() == 1 ? "it" : "them", ", then ampctl job submit -f ",
                  Printable(source), " --dry-run\n");
  return text;
}

}  // namespace ampd::client
