#include "worker/device/visible_gpus.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace ampd::device {
namespace {

using testing::ElementsAre;
using testing::IsEmpty;

const std::vector<std::string> kUuids = {"GPU-5ae67c3f-01", "GPU-5ae67c3f-02", "", "GPU-9b000000-04"};

std::vector<size_t> Visible(const std::string& value) { return VisibleGpus(value, kUuids).value(); }

TEST(VisibleGpus, Numbers_AreThoseOfTheGpusInTheirOrder) {
  EXPECT_THAT(Visible("1"), ElementsAre(1));
  EXPECT_THAT(Visible("3,0, 2"), ElementsAre(3, 0, 2));
}

TEST(VisibleGpus, Uuid_MayBeTheBeginningThatNoOtherGpuHas) {
  EXPECT_THAT(Visible("GPU-5ae67c3f-02"), ElementsAre(1));
  EXPECT_THAT(Visible("GPU-9,0"), ElementsAre(3, 0));
  EXPECT_THAT(Visible("0,GPU-5ae6,3"), ElementsAre(0)) << "two GPUs begin like that";
}

TEST(VisibleGpus, EntriesFromTheFirstInvalidOneOn_AreIgnored) {
  EXPECT_THAT(Visible("1,4,0"), ElementsAre(1));
  EXPECT_THAT(Visible("1,-1,0"), ElementsAre(1));
  EXPECT_THAT(Visible("1,,0"), ElementsAre(1));
  EXPECT_THAT(Visible("1,1,0"), ElementsAre(1));
  EXPECT_THAT(Visible("1,GPU-ffff,0"), ElementsAre(1));
}

TEST(VisibleGpus, ValueWithoutAValidEntry_HidesAllGpus) {
  for (const char* value : {"", "-1", "none", "NoDevFiles", "all"}) {
    EXPECT_THAT(Visible(value), IsEmpty()) << value;
  }
}

TEST(VisibleGpus, PartOfAGpu_IsRefusedWithWhatToDo) {
  EXPECT_EQ(std::string(VisibleGpus("MIG-1234", kUuids).status().message()),
            "CUDA_VISIBLE_DEVICES is MIG-1234, which names a part of a GPU (MIG), and ampd uses only whole GPUs: set "
            "it to the number or UUID of a GPU without MIG, or give --device cpu");
}

}  // namespace
}  // namespace ampd::device
