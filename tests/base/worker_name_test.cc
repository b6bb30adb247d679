#include "base/api/worker_name.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ampd {
namespace {

using testing::HasSubstr;

TEST(WorkerName, NamesOfHostsAndPods_AreTaken) {
  for (const std::string& name :
       std::vector<std::string>{"w1", "a", "Node01.Example.com", "gpu_7", "ampd-worker-0", std::string(253, 'x')}) {
    EXPECT_TRUE(CheckWorkerName(name).ok()) << name;
  }
}

TEST(WorkerName, OthersAreRefused_AndTheMessageSaysWhy) {
  EXPECT_THAT(std::string(CheckWorkerName("").message()), HasSubstr("is empty"));
  EXPECT_THAT(std::string(CheckWorkerName(std::string(254, 'x')).message()), HasSubstr("254 bytes; at most 253"));
  for (const std::string name :
       {"-w", "w-", ".", "a b", "a/b", "../x", "w\n1", "w\x1b[2J", "w\"1", "w\xC3\xA9", "{w}"}) {
    EXPECT_THAT(std::string(CheckWorkerName(name).message()), HasSubstr("letters, digits")) << name;
    EXPECT_TRUE(absl::IsInvalidArgument(CheckWorkerName(name)));
  }
  EXPECT_THAT(std::string(CheckWorkerName("w\n1").message()), HasSubstr("\"w\\n1\""));
}

}  // namespace
}  // namespace ampd
