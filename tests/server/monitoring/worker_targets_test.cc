#include "server/monitoring/worker_targets.h"

#include <gtest/gtest.h>

namespace ampd::server {
namespace {

v1::Worker WorkerAt(const std::string& name, const std::string& address) {
  v1::Worker worker;
  worker.set_name(name);
  worker.set_metrics_address(address);
  return worker;
}

TEST(WorkerTargets, AreTheWorkersThatServeMetrics) {
  EXPECT_EQ(WorkerTargets({WorkerAt("gpu1", "10.0.0.7:7072"), WorkerAt("silent", ""), WorkerAt("here", "127.0.0.1:9")}),
            R"([{"labels":{"__scheme__":"https","worker":"gpu1"},"targets":["10.0.0.7:7072"]},)"
            R"({"labels":{"__scheme__":"http","worker":"here"},"targets":["127.0.0.1:9"]}])");
}

TEST(WorkerTargets, AWorkerAtAllAddressesIsReachedByItsName) {
  for (const char* const everywhere : {"0.0.0.0:7072", "[::]:7072"}) {
    EXPECT_EQ(WorkerTargets({WorkerAt("gpu1", everywhere)}),
              R"([{"labels":{"__scheme__":"https","worker":"gpu1"},"targets":["gpu1:7072"]}])");
  }
}

TEST(WorkerTargets, WithoutWorkersTheListIsEmpty) {
  EXPECT_EQ(WorkerTargets({}), "[]");
  EXPECT_EQ(WorkerTargets({WorkerAt("odd", "no address")}), "[]");
}

}  // namespace
}  // namespace ampd::server
