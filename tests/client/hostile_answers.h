#pragma once

#include <google/protobuf/descriptor.h>
#include <google/protobuf/message.h>
#include <grpcpp/grpcpp.h>
#include <grpcpp/support/server_interceptor.h>

#include <memory>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/str_replace.h"
#include "absl/synchronization/mutex.h"

// Makes a fake server hostile: appends a text chosen by the test to every name, message and error in its answers.
namespace ampd::client {

// A text with everything that could control a terminal: a colour, clearing the screen, a title, C1 controls, marks of
// text direction, line breaks, and a forged line.
inline constexpr char kHostile[] =
    "\x1b[31mRED\x1b[2J\x1b]0;t\x07\u009b2J\u202eFLIP\u2066\u200f\u061c\u2028\u2029\x7f\r\nFORGED";

// A text that the fake server appends to each text in its answers. Empty: the answers stay as they are. Thread-safe.
class HostileText {
 public:
  void Set(const std::string& text) {
    absl::MutexLock lock(&mutex_);
    text_ = text;
  }
  std::string Get() {
    absl::MutexLock lock(&mutex_);
    return text_;
  }

 private:
  absl::Mutex mutex_;
  std::string text_;
};

// Appends `text` to the text fields of the message and of the messages in it. Skips fields such as tokens and digests,
// which ampctl sends back or verifies: with wrong values there, it would print only an error.
inline void AppendToTexts(const std::string& text, google::protobuf::Message* message) {
  using google::protobuf::FieldDescriptor;
  static const std::set<std::string> kSentBack = {"resume_token", "next_page_token", "sha256", "manifest_sha256"};
  const google::protobuf::Reflection& reflection = *message->GetReflection();
  std::vector<const FieldDescriptor*> fields;
  reflection.ListFields(*message, &fields);
  for (const FieldDescriptor* field : fields) {
    const int size = field->is_repeated() ? reflection.FieldSize(*message, field) : 1;
    for (int i = 0; i < size; ++i) {
      if (field->cpp_type() == FieldDescriptor::CPPTYPE_MESSAGE) {
        AppendToTexts(text, field->is_repeated() ? reflection.MutableRepeatedMessage(message, field, i)
                                                 : reflection.MutableMessage(message, field));
      } else if (field->type() != FieldDescriptor::TYPE_STRING || kSentBack.contains(field->name())) {
        continue;
      } else if (field->is_repeated()) {
        reflection.SetRepeatedString(message, field, i, reflection.GetRepeatedString(*message, field, i) + text);
      } else {
        reflection.SetString(message, field, reflection.GetString(*message, field) + text);
      }
    }
  }
}

// Changes the answers of one call according to the HostileText.
class HostileAnswers final : public grpc::experimental::Interceptor {
 public:
  HostileAnswers(const std::string& method, HostileText* text) : method_(method), text_(text) {}

  void Intercept(grpc::experimental::InterceptorBatchMethods* methods) override {
    using grpc::experimental::InterceptionHookPoints;
    const std::string text = text_->Get();
    if (!text.empty() && methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_MESSAGE)) {
      ChangeMessage(text, methods->GetSerializedSendMessage());
    }
    if (!text.empty() && methods->QueryInterceptionHookPoint(InterceptionHookPoints::PRE_SEND_STATUS)) {
      const grpc::Status status = methods->GetSendStatus();
      if (!status.ok()) {
        methods->ModifySendStatus(
            grpc::Status(status.error_code(), status.error_message() + text, status.error_details()));
      }
    }
    methods->Proceed();
  }

 private:
  void ChangeMessage(const std::string& text, grpc::ByteBuffer* bytes) const {
    // The descriptor pool names the method "/ampd.v1.JobService/GetJob" as "ampd.v1.JobService.GetJob".
    const std::string name = absl::StrReplaceAll(method_.substr(1), {{"/", "."}});
    const auto* method = google::protobuf::DescriptorPool::generated_pool()->FindMethodByName(name);
    if (method == nullptr) {
      return;  // the health check's method, whose answer has no text
    }
    auto* const factory = google::protobuf::MessageFactory::generated_factory();
    const std::unique_ptr<google::protobuf::Message> message(factory->GetPrototype(method->output_type())->New());
    grpc::ByteBuffer copy(*bytes);
    grpc::GenericDeserialize<grpc::ProtoBufferReader, google::protobuf::Message>(&copy, message.get());
    AppendToTexts(text, message.get());
    bytes->Clear();
    bool owns_buffer = false;
    grpc::GenericSerialize<grpc::ProtoBufferWriter, google::protobuf::Message>(*message, bytes, &owns_buffer);
  }

  const std::string method_;
  HostileText* const text_;
};

class HostileAnswersFactory final : public grpc::experimental::ServerInterceptorFactoryInterface {
 public:
  // REQUIRES: `text` outlives the server.
  explicit HostileAnswersFactory(HostileText* text) : text_(text) {}
  grpc::experimental::Interceptor* CreateServerInterceptor(grpc::experimental::ServerRpcInfo* info) override {
    return new HostileAnswers(info->method(), text_);
  }

 private:
  HostileText* const text_;
};

}  // namespace ampd::client
