#include "client/commands/suggestions.h"

#include <map>
#include <utility>

#include "absl/strings/str_split.h"
#include "absl/time/time.h"
#include "client/api/auth.h"
#include "client/api/job_client.h"
#include "client/jobfile/spec_fields.h"
#include "client/terminal/contexts.h"

namespace ampd::client {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::FieldDescriptor;

constexpr absl::Duration kDeadline = absl::Milliseconds(500);
constexpr int kMostJobs = 100;

// Returns a client whose calls have a short deadline; null if no address is known.
std::unique_ptr<JobClient> QuickClient(const std::string& address_flag) {
  const auto address = ResolveAddress(address_flag);
  const auto server = address.ok() ? ConnectionTo(address->address, {}, address->defaults) : address.status();
  return server.ok() ? std::make_unique<JobClient>(JobClient::Options{.server = *server, .call_deadline = kDeadline})
                     : nullptr;
}

bool IsMapping(const FieldDescriptor& field) {
  return field.cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE && field.message_type()->field_count() > 0 &&
         field.message_type()->full_name() != "google.protobuf.Duration";
}

// Returns the message type at a path such as "optimizer.groups[0]", or null if the path leads to no message.
const Descriptor* TypeAt(const Descriptor* type, const std::string& path) {
  for (const absl::string_view word : absl::StrSplit(path, '.', absl::SkipEmpty())) {
    const FieldDescriptor* const field = FindField(*type, std::string(word.substr(0, word.find('['))));
    if (field == nullptr || !IsMapping(*field) || field->is_map()) {
      return nullptr;
    }
    type = field->message_type();
  }
  return type;
}

std::vector<std::string> ValuesOf(const FieldDescriptor& field) {
  if (field.cpp_type() == FieldDescriptor::CPPTYPE_ENUM) {
    return EnumNames(*field.enum_type());
  }
  return field.cpp_type() == FieldDescriptor::CPPTYPE_BOOL ? std::vector<std::string>{"true", "false"}
                                                           : std::vector<std::string>();
}

std::string EndingOf(const FieldDescriptor& field) {
  return !IsMapping(field) ? "=" : field.is_repeated() && !field.is_map() ? "[0]." : ".";
}

}  // namespace

std::vector<std::string> SuggestFiles(const Typed& /*typed*/) { return {kFileNames}; }

std::vector<std::string> SuggestJobIds(const Typed& typed) {
  std::vector<std::string> words;
  std::map<std::string, int> num_named;
  const auto client = QuickClient(typed.address);
  const auto list =
      client == nullptr ? absl::StatusOr<JobClient::JobList>(JobClient::JobList()) : client->ListJobs("", kMostJobs);
  for (const v1::Job& job : list.ok() ? list->jobs : std::vector<v1::Job>()) {
    words.push_back(job.id());
    ++num_named[job.spec().name()];
  }
  for (const auto& [name, count] : num_named) {
    if (count == 1) {  // Commands reject a name that several jobs have.
      words.push_back(name);
    }
  }
  return words;
}

std::vector<std::string> SuggestWorkers(const Typed& typed) {
  std::vector<std::string> names;
  const auto client = QuickClient(typed.address);
  const auto workers =
      client == nullptr ? absl::StatusOr<std::vector<v1::Worker>>(std::vector<v1::Worker>()) : client->ListWorkers();
  for (const v1::Worker& worker : workers.ok() ? *workers : std::vector<v1::Worker>()) {
    names.push_back(worker.name());
  }
  return names;
}

std::vector<std::string> SuggestArtifacts(const Typed& typed) {
  std::vector<std::string> names;
  const auto client = QuickClient(typed.address);
  const auto artifacts = client == nullptr ? absl::StatusOr<std::vector<v1::Artifact>>(std::vector<v1::Artifact>())
                                           : client->ListArtifacts(/*job=*/"");
  for (const v1::Artifact& artifact : artifacts.ok() ? *artifacts : std::vector<v1::Artifact>()) {
    names.push_back(artifact.name());
  }
  return names;
}

std::vector<std::string> SuggestTokens(const Typed& typed) {
  std::vector<std::string> names;
  const auto client = QuickClient(typed.address);
  const auto tokens = client == nullptr ? absl::UnavailableError("") : ListTokens(client.get());
  for (const v1::Token& token : tokens.ok() ? *tokens : std::vector<v1::Token>()) {
    names.push_back(token.name());
  }
  return names;
}

std::vector<std::string> SuggestContexts(const Typed& /*typed*/) {
  std::vector<std::string> names;
  const auto contexts = ReadContexts();
  for (const auto& [name, unused] : contexts.ok() ? contexts->servers : std::map<std::string, NamedServer>()) {
    names.push_back(name);
  }
  return names;
}

Suggest SuggestWords(std::vector<std::string> words) {
  return [words = std::move(words)](const Typed&) { return words; };
}

Suggest SuggestBoth(Suggest first, Suggest second) {
  return [first = std::move(first), second = std::move(second)](const Typed& typed) {
    std::vector<std::string> all = first(typed);
    const std::vector<std::string> more = second(typed);
    all.insert(all.end(), more.begin(), more.end());
    return all;
  };
}

std::vector<std::string> SpecPathsFor(const Descriptor& type, const std::string& text) {
  const size_t equals = text.find('=');
  const std::string path = text.substr(0, equals);
  const size_t dot = path.rfind('.');
  const std::string above = dot == std::string::npos ? "" : path.substr(0, dot + 1);
  const Descriptor* const level = TypeAt(&type, above);
  std::vector<std::string> paths;
  if (level == nullptr) {
    return paths;
  }
  if (equals != std::string::npos) {
    const FieldDescriptor* const field = FindField(*level, path.substr(above.size()));
    for (const std::string& value : field == nullptr ? std::vector<std::string>() : ValuesOf(*field)) {
      paths.push_back(path + "=" + value);
    }
    return paths;
  }
  for (int i = 0; i < level->field_count(); ++i) {
    paths.push_back(above + FieldName(*level->field(i)) + EndingOf(*level->field(i)));
  }
  return paths;
}

}  // namespace ampd::client
