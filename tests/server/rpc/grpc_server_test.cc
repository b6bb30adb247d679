// Tests the services that generic gRPC tools use (health and reflection), and the limits of one connection.
#include "server/rpc/grpc_server.h"

#include <gmock/gmock.h>
#include <google/protobuf/descriptor.h>
#include <google/protobuf/descriptor.pb.h>
#include <google/protobuf/descriptor_database.h>
#include <google/protobuf/message.h>
#include <google/protobuf/text_format.h>
#include <grpcpp/generic/generic_stub.h>
#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "tests/server/server_fixtures.h"

namespace ampd::server {
namespace {

using google::protobuf::DescriptorPool;
using google::protobuf::FileDescriptorProto;
using google::protobuf::Message;
using google::protobuf::MessageFactory;
using google::protobuf::TextFormat;
using testing::HasSubstr;

// A stream of any method, which sends and receives messages as bytes.
class ByteStream {
 public:
  ByteStream(const std::shared_ptr<grpc::Channel>& channel, const std::string& method, const std::string& request)
      : stub_(channel), call_(stub_.PrepareCall(context_.get(), method, &queue_)) {
    call_->StartCall(this);
    Await();
    const grpc::Slice slice(request);
    call_->WriteLast(grpc::ByteBuffer(&slice, 1), grpc::WriteOptions(), this);
    Await();
  }
  ~ByteStream() {
    context_->TryCancel();
    grpc::Status status;
    call_->Finish(&status, this);
    Await();
  }

  // Waits for the next message and returns its bytes; "ended" if the stream has ended.
  std::string Next() {
    grpc::ByteBuffer message;
    call_->Read(&message, this);
    std::vector<grpc::Slice> slices;
    if (!Await() || !message.Dump(&slices).ok()) {
      return "ended";
    }
    std::string bytes;
    for (const grpc::Slice& slice : slices) {
      bytes.append(reinterpret_cast<const char*>(slice.begin()), slice.size());
    }
    return bytes;
  }

 private:
  bool Await() {
    void* tag = nullptr;
    bool ok = false;
    return queue_.Next(&tag, &ok) && ok;
  }

  grpc::GenericStub stub_;
  std::unique_ptr<grpc::ClientContext> context_ = Context();
  grpc::CompletionQueue queue_;
  std::unique_ptr<grpc::GenericClientAsyncReaderWriter> call_;
};

class GrpcServerTest : public testing::Test {
 protected:
  // Calls the reflection service with `request`, a message in text format, and returns the response. Finds the message
  // types by name in the library that implements the service. Returns null if the server has no such service.
  std::unique_ptr<Message> Reflect(const std::string& request) {
    const auto make = [](const std::string& type) {
      const auto* of = DescriptorPool::generated_pool()->FindMessageTypeByName("grpc.reflection.v1alpha." + type);
      const Message* message = of == nullptr ? nullptr : MessageFactory::generated_factory()->GetPrototype(of);
      return std::unique_ptr<Message>(message == nullptr ? nullptr : message->New());
    };
    const std::unique_ptr<Message> asked = make("ServerReflectionRequest");
    if (asked == nullptr) {
      return nullptr;
    }
    EXPECT_TRUE(TextFormat::ParseFromString(request, asked.get()));
    ByteStream stream(server_.NewChannel(), "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
                      asked->SerializeAsString());
    std::unique_ptr<Message> answer = make("ServerReflectionResponse");
    EXPECT_TRUE(answer->ParseFromString(stream.Next()));
    return answer;
  }

  TestServer server_;
};

// Returns the files in a ServerReflectionResponse.
std::vector<FileDescriptorProto> FilesOf(const Message& response) {
  const Message& told = response.GetReflection()->GetMessage(
      response, response.GetDescriptor()->FindFieldByName("file_descriptor_response"));
  const auto* field = told.GetDescriptor()->FindFieldByName("file_descriptor_proto");
  std::vector<FileDescriptorProto> files(told.GetReflection()->FieldSize(told, field));
  for (size_t i = 0; i < files.size(); ++i) {
    EXPECT_TRUE(files[i].ParseFromString(told.GetReflection()->GetRepeatedString(told, field, static_cast<int>(i))));
  }
  return files;
}

TEST_F(GrpcServerTest, Reflection_ListsTheServices) {
  const std::unique_ptr<Message> services = Reflect("list_services: ''");
  ASSERT_NE(services, nullptr);
  for (const char* service :
       {"ampd.v1.JobService", "ampd.v1.WorkerService", "ampd.v1.WorkerAdminService", "ampd.v1.ArtifactService"}) {
    EXPECT_THAT(services->ShortDebugString(), HasSubstr(absl::StrCat("service { name: \"", service, "\" }")));
  }
}

TEST_F(GrpcServerTest, Reflection_DescribesAServiceToWhoKnowsNothingElse) {
  const std::unique_ptr<Message> answer = Reflect("file_containing_symbol: 'ampd.v1.JobService'");
  ASSERT_NE(answer, nullptr);
  google::protobuf::SimpleDescriptorDatabase files;
  for (const FileDescriptorProto& file : FilesOf(*answer)) {
    ASSERT_TRUE(files.Add(file));
  }
  DescriptorPool told(&files);
  const auto* service = told.FindServiceByName("ampd.v1.JobService");
  ASSERT_NE(service, nullptr);
  EXPECT_EQ(service->DebugString(),
            DescriptorPool::generated_pool()->FindServiceByName("ampd.v1.JobService")->DebugString());
  EXPECT_NE(told.FindMessageTypeByName("ampd.v1.JobSpec"), nullptr) << "a file that the service imports is missing";
}

TEST_F(GrpcServerTest, Drain_TellsThoseWhoWatchTheHealthBeforeTheirStreamEnds) {
  // Two encoded HealthCheckResponses, with the status SERVING and NOT_SERVING.
  constexpr char kServing[] = "\x08\x01";
  constexpr char kNotServing[] = "\x08\x02";
  ByteStream health(server_.NewChannel(), "/grpc.health.v1.Health/Watch", "");
  EXPECT_EQ(health.Next(), kServing);
  std::thread drain([this] { server_.Stop(); });
  EXPECT_EQ(health.Next(), kNotServing);
  EXPECT_EQ(health.Next(), "ended");
  drain.join();
}

TEST_F(GrpcServerTest, OneConnection_CarriesHundredsOfWatches) {
  const v1::Job job = server_.CreateJob();
  v1::WatchJobRequest request;
  request.set_id(job.id());
  struct Watcher {
    std::unique_ptr<grpc::ClientContext> context = Context();
    std::unique_ptr<grpc::ClientReader<v1::WatchJobResponse>> reader;
  };
  std::vector<Watcher> watchers(250);
  for (Watcher& watcher : watchers) {
    watcher.reader = server_.jobs().WatchJob(watcher.context.get(), request);
  }
  for (Watcher& watcher : watchers) {
    v1::WatchJobResponse message;
    ASSERT_TRUE(watcher.reader->Read(&message)) << watcher.reader->Finish().error_message();
  }
  for (Watcher& watcher : watchers) {
    watcher.context->TryCancel();
  }
}

}  // namespace
}  // namespace ampd::server
