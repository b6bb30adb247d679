#pragma once

#include <google/protobuf/descriptor.h>

#include <map>
#include <optional>
#include <set>
#include <string>

namespace ampd::server {

// The comments of the proto files. A compiled program does not contain them, so they are read from a file of
// descriptors that protoc wrote. Single-threaded.
class ProtoComments {
 public:
  ProtoComments();

  // Returns the comment on a message, a field or an enum value, on one line; empty if there is none. A comment of
  // several paragraphs keeps the breaks between them.
  std::string Of(const google::protobuf::Descriptor& message) const;
  std::string Of(const google::protobuf::FieldDescriptor& field) const;
  std::string Of(const google::protobuf::EnumValueDescriptor& value) const;

 private:
  google::protobuf::DescriptorPool pool_;
};

// How admission treats a field. To find this, specs without the field and specs with extreme values are passed to
// admission.
struct FieldFacts {
  std::set<std::string> defaults;     // What admission fills in for the field: several if it depends on other fields.
  std::set<std::string> limits;       // Texts such as "1 to 1000"; empty: every value is accepted.
  std::optional<double> least, most;  // The limits as numbers, if `limits` is one range of numbers.
  bool least_is_open = false;         // `least` itself is not accepted.
  bool most_is_open = false;
  // Whether admission accepts 0, an empty text or an empty list. It can't distinguish these from a field that is not
  // set.
  bool accepts_zero = false;
};

// Whether a job file must set the field.
bool IsRequired(const google::protobuf::FieldDescriptor& field);

// Returns the facts about every field of a job file, by the field's full name ("ampd.v1.TrainSpec.steps").
std::map<std::string, FieldFacts> FindSpecFacts();

}  // namespace ampd::server
