// Compares the API and the journal's format with tests/golden/contract.txt, which has one line per field, enum value
// and method. A removed or changed line would break clients, or make existing journals unreadable. A change that adds a
// field adds its line to the file.

#include <google/protobuf/descriptor.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <set>
#include <string>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "ampd/internal/journal.pb.h"
#include "ampd/internal/trainer.pb.h"
#include "ampd/v1/artifact_service.pb.h"
#include "ampd/v1/auth_service.pb.h"
#include "ampd/v1/dataset_file.pb.h"
#include "ampd/v1/job_service.pb.h"
#include "ampd/v1/model_file.pb.h"
#include "ampd/v1/worker_admin_service.pb.h"
#include "ampd/v1/worker_service.pb.h"
#include "base/io/file.h"

namespace ampd {
namespace {

using google::protobuf::Descriptor;
using google::protobuf::EnumDescriptor;
using google::protobuf::FieldDescriptor;
using google::protobuf::FileDescriptor;
using google::protobuf::ServiceDescriptor;

constexpr char kGolden[] = AMPD_SOURCE_DIR "/tests/golden/contract.txt";

std::string TypeOf(const FieldDescriptor& field) {
  std::string type = field.type_name();
  if (field.message_type() != nullptr) {
    type = field.message_type()->full_name();
  } else if (field.enum_type() != nullptr) {
    type = field.enum_type()->full_name();
  }
  const char* label = field.is_repeated() ? "repeated " : field.has_optional_keyword() ? "optional " : "";
  const auto* oneof = field.real_containing_oneof();
  return absl::StrCat(label, type, " json=", field.json_name(), oneof != nullptr ? " in " + oneof->name() : "");
}

void AddEnum(const EnumDescriptor& type, std::set<std::string>& lines) {
  for (int i = 0; i < type.value_count(); ++i) {
    lines.insert(absl::StrCat("enum ", type.full_name(), " ", type.value(i)->name(), " = ", type.value(i)->number()));
  }
}

void AddMessage(const Descriptor& type, std::set<std::string>& lines) {
  lines.insert(absl::StrCat("message ", type.full_name()));
  for (int i = 0; i < type.field_count(); ++i) {
    const FieldDescriptor& field = *type.field(i);
    lines.insert(absl::StrCat("field ", field.full_name(), " = ", field.number(), " ", TypeOf(field)));
  }
  for (int i = 0; i < type.nested_type_count(); ++i) {
    AddMessage(*type.nested_type(i), lines);
  }
  for (int i = 0; i < type.enum_type_count(); ++i) {
    AddEnum(*type.enum_type(i), lines);
  }
}

void AddService(const ServiceDescriptor& service, std::set<std::string>& lines) {
  for (int i = 0; i < service.method_count(); ++i) {
    const auto& method = *service.method(i);
    lines.insert(absl::StrCat("method ", method.full_name(), "(", method.client_streaming() ? "stream " : "",
                              method.input_type()->full_name(), ") returns (",
                              method.server_streaming() ? "stream " : "", method.output_type()->full_name(), ")"));
  }
}

// Collects `file` and all proto files of ampd that it imports, directly or indirectly.
void Collect(const FileDescriptor& file, std::set<const FileDescriptor*>& files) {
  if (file.package().rfind("ampd.", 0) != 0 || !files.insert(&file).second) {
    return;
  }
  for (int i = 0; i < file.dependency_count(); ++i) {
    Collect(*file.dependency(i), files);
  }
}

std::set<std::string> CurrentContract() {
  std::set<const FileDescriptor*> files;
  Collect(*internal::Update::descriptor()->file(), files);
  Collect(*internal::TrainerCommand::descriptor()->file(), files);
  Collect(*v1::ListWorkersRequest::descriptor()->file(), files);
  Collect(*v1::Artifact::descriptor()->file(), files);
  Collect(*v1::Token::descriptor()->file(), files);
  Collect(*v1::DatasetFile::descriptor()->file(), files);
  Collect(*v1::ModelFile::descriptor()->file(), files);
  std::set<std::string> lines;
  for (const FileDescriptor* file : files) {
    for (int i = 0; i < file->message_type_count(); ++i) {
      AddMessage(*file->message_type(i), lines);
    }
    for (int i = 0; i < file->enum_type_count(); ++i) {
      AddEnum(*file->enum_type(i), lines);
    }
    for (int i = 0; i < file->service_count(); ++i) {
      AddService(*file->service(i), lines);
    }
  }
  return lines;
}

TEST(Contract, EqualsTheGoldenFile) {
  const std::set<std::string> current = CurrentContract();
  if (std::getenv("AMPD_UPDATE_GOLDEN") != nullptr) {
    ASSERT_TRUE(WriteFileAtomically(kGolden, absl::StrJoin(current, "\n") + "\n").ok());
  }
  const auto text = ReadFile(kGolden, 10 << 20);
  ASSERT_TRUE(text.ok()) << text.status();
  const std::set<std::string> golden = absl::StrSplit(*text, '\n', absl::SkipEmpty());
  for (const std::string& line : golden) {
    EXPECT_TRUE(current.count(line)) << "breaks clients or journals, is gone or changed: " << line;
  }
  for (const std::string& line : current) {
    EXPECT_TRUE(golden.count(line)) << "new: " << line << "\n  run with AMPD_UPDATE_GOLDEN=1 and review the difference";
  }
  EXPECT_GT(golden.size(), 300u);
}

}  // namespace
}  // namespace ampd
