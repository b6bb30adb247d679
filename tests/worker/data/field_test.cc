// Tests datasets of several arrays (fields), each for the model's input of the same name.
#include "worker/data/field.h"

#include <gmock/gmock.h>
#include <zip.h>

#include <cmath>
#include <cstring>
#include <functional>
#include <utility>
#include <vector>

#include "ATen/ops/cat.h"
#include "ATen/ops/equal.h"
#include "absl/strings/str_cat.h"
#include "base/error.h"
#include "tests/data/data_folder.h"
#include "tests/data/npy_bytes.h"
#include "tests/worker/data/numbers.h"
#include "worker/data/batcher.h"
#include "worker/data/dataset.h"

namespace ampd::data {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

constexpr int64_t kSamples = 6;

Array Counting(int64_t first, int64_t count) {
  std::vector<int64_t> numbers;
  for (int64_t i = 0; i < count; ++i) {
    numbers.push_back(first + i);
  }
  return Numbers(ElementType::kInt64, {count / 3, 3}, numbers);
}

const Field kNumeric = {.name = "numeric", .type = ElementType::kFloat32, .shape = {2}};
const Field kCategories = {.name = "categories", .type = ElementType::kInt64, .shape = {3}};

// Six samples of two fields, numbers and categories, without images.
Dataset::Arrays Tower() {
  std::vector<double> numeric;
  for (int i = 0; i < 2 * kSamples; ++i) {
    numeric.push_back(i / 10.0);
  }
  return {.labels = Numbers<uint8_t>(ElementType::kUint8, {kSamples}, {0, 1, 2, 0, 1, 2}),
          .labels_name = "y",
          .num_classes = 3,
          .takes_images = false,
          .fields = {{kNumeric, Numbers(ElementType::kFloat64, {kSamples, 2}, numeric), "the numeric"},
                     {kCategories, Counting(0, 3 * kSamples), "the categories"}}};
}

template <typename T>
std::vector<T> NumbersOf(const at::Tensor& tensor) {
  const T* const begin = tensor.const_data_ptr<T>();
  return std::vector<T>(begin, begin + tensor.numel());
}

at::Tensor Taken(const Field& field, Array array) {
  auto samples = TakeField({field, std::move(array), "x"});
  EXPECT_TRUE(samples.ok()) << samples.status();
  return *std::move(samples);
}

// Applies `change` to the arrays of Tower(), and returns the error of Dataset::FromArrays for the result.
std::string ErrorOf(const std::function<void(Dataset::Arrays&)>& change) {
  Dataset::Arrays source = Tower();
  change(source);
  const absl::Status status = Dataset::FromArrays(std::move(source)).status();
  EXPECT_EQ(ReasonOf(status), "DATA_ERROR") << status;
  return std::string(status.message());
}

TEST(Field, ArraysAreReadAsTheTypesThatHoldTheirNumbers) {
  using enum ElementType;
  const ElementType all[] = {kBool, kUint8, kInt8, kInt16, kInt32, kInt64, kFloat16, kFloat32, kFloat64};
  const auto taken_by = [&](ElementType wanted) {
    std::string names;
    for (const ElementType given : all) {
      names += CanBe(wanted, given) ? ElementName(given) + " " : "";
    }
    return names;
  };
  EXPECT_EQ(taken_by(kFloat32), "bool float16 float32 float64 ");
  EXPECT_EQ(taken_by(kInt64), "bool uint8 int8 int16 int32 int64 ");
  EXPECT_EQ(taken_by(kInt32), "bool uint8 int8 int16 int32 ");
  EXPECT_EQ(taken_by(kUint8), "bool uint8 ");
  EXPECT_EQ(taken_by(kBool), "bool ");
}

TEST(Field, ElementsKeepTheirValues) {
  const Field two = {.name = "f", .type = ElementType::kFloat32, .shape = {2}};
  EXPECT_THAT(NumbersOf<float>(Taken(two, Numbers<uint16_t>(ElementType::kFloat16, {1, 2}, {0x3c00, 0xc500}))),
              ElementsAre(1, -5));
  EXPECT_THAT(NumbersOf<float>(Taken(two, Numbers<double>(ElementType::kFloat64, {1, 2}, {0.1, -3}))),
              ElementsAre(0.1f, -3));
  EXPECT_THAT(NumbersOf<float>(Taken(two, Numbers<uint8_t>(ElementType::kBool, {1, 2}, {0, 1}))), ElementsAre(0, 1))
      << "not mapped as pixels are";
  const Field one = {.name = "f", .type = ElementType::kInt64, .shape = {}};
  EXPECT_THAT(NumbersOf<int64_t>(Taken(one, Numbers<int8_t>(ElementType::kInt8, {2}, {-100, 7}))),
              ElementsAre(-100, 7));
}

TEST(Field, SamplesOfFieldsAlone_HaveEachByItsName) {
  const auto data = Dataset::FromArrays(Tower());
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->input_names(), ElementsAre("numeric", "categories"));
  EXPECT_EQ(data->size(), kSamples);
  EXPECT_EQ(data->sample_elements(), 2);
  EXPECT_THAT(data->image_shape(), ElementsAre());
  const Dataset::Samples samples = data->Get({4, 0, 4});
  EXPECT_FALSE(samples.images.defined());
  EXPECT_THAT(NumbersOf<int64_t>(samples.labels), ElementsAre(1, 0, 1));
  EXPECT_THAT(samples.others.at("numeric").sizes().vec(), ElementsAre(3, 2));
  EXPECT_THAT(NumbersOf<float>(samples.others.at("numeric")), ElementsAre(0.8f, 0.9f, 0, 0.1f, 0.8f, 0.9f));
  EXPECT_THAT(NumbersOf<int64_t>(samples.others.at("categories")), ElementsAre(12, 13, 14, 0, 1, 2, 12, 13, 14));
  EXPECT_EQ(samples.bytes(), 3 * (2 * 4 + 3 * 8 + 8));
}

TEST(Field, BesideImages_FieldsStayAsTheyAreWhereThoseChange) {
  Dataset::Arrays source = Tower();
  source.takes_images = true;
  source.images = {.type = ElementType::kUint8, .shape = {kSamples, 4, 4}};
  for (int i = 0; i < 16 * kSamples; ++i) {
    source.images.bytes.push_back(static_cast<uint8_t>(2 * i));
  }
  source.fields.erase(source.fields.begin());
  const auto data = Dataset::FromArrays(std::move(source));
  ASSERT_TRUE(data.ok()) << data.status();
  EXPECT_THAT(data->input_names(), ElementsAre("images", "categories"));
  const Dataset::Samples plain = data->Get({5, 1});
  const Dataset::Samples changed = data->Get({5, 1}, {.crop_padding = 2, .flip = true, .seed = 3}, 1);
  EXPECT_FALSE(at::equal(plain.images, changed.images));
  EXPECT_TRUE(at::equal(plain.others.at("categories"), changed.others.at("categories")));
  EXPECT_THAT(NumbersOf<int64_t>(changed.others.at("categories")), ElementsAre(15, 16, 17, 3, 4, 5));
}

TEST(Field, BatchesGatheredAhead_AreTheSamplesOneByOne) {
  const auto data = Dataset::FromArrays(Tower());
  ASSERT_TRUE(data.ok()) << data.status();
  const Sampler::Options options = {.num_samples = kSamples, .batch_size = 4, .seed = 9, .last_batch = LastBatch::kPad};
  Batcher batcher(
      options,
      [&](const std::vector<int64_t>& indices, int64_t, const Dataset::Samples&) { return data->Get(indices); },
      {.batches = 3, .threads = 2});
  batcher.Start();
  Sampler sampler(options);
  for (int step = 0; step < 12; ++step) {
    const Dataset::Samples samples = batcher.Next().samples;
    std::vector<at::Tensor> numeric, categories, labels;
    for (const int64_t index : sampler.Next()) {
      const Dataset::Samples one = data->Get({index});
      numeric.push_back(one.others.at("numeric"));
      categories.push_back(one.others.at("categories"));
      labels.push_back(one.labels);
    }
    EXPECT_TRUE(at::equal(samples.others.at("numeric"), at::cat(numeric))) << step;
    EXPECT_TRUE(at::equal(samples.others.at("categories"), at::cat(categories))) << step;
    EXPECT_TRUE(at::equal(samples.labels, at::cat(labels))) << step;
  }
}

TEST(Field, OtherTypesAndShapes_AreErrorsThatNameBothSides) {
  const auto with = [](size_t field, Array array) {
    return ErrorOf([&](Dataset::Arrays& source) { source.fields[field].array = std::move(array); });
  };
  EXPECT_EQ(with(1, Numbers<float>(ElementType::kFloat32, {6, 3}, std::vector<float>(18))),
            "the categories: float32 of (6, 3); the model's input categories takes int64 of (samples, 3)");
  EXPECT_EQ(with(1, Numbers<int64_t>(ElementType::kInt64, {6, 2}, std::vector<int64_t>(12))),
            "the categories: int64 of (6, 2); the model's input categories takes int64 of (samples, 3)");
  EXPECT_EQ(with(1, Numbers<int64_t>(ElementType::kInt64, {18}, std::vector<int64_t>(18))),
            "the categories: int64 of (18); the model's input categories takes int64 of (samples, 3)");
  EXPECT_EQ(with(0, Numbers<uint8_t>(ElementType::kUint8, {6, 2}, std::vector<uint8_t>(12))),
            "the numeric: uint8 of (6, 2); the model's input numeric takes float32 of (samples, 2)")
      << "bytes may be pixels";
  EXPECT_EQ(with(0, {.type = ElementType::kFloat32, .shape = {}, .bytes = {0, 0, 0, 0}}),
            "the numeric: float32 of (); the model's input numeric takes float32 of (samples, 2)");
  EXPECT_EQ(with(0, {.type = ElementType::kFloat32, .shape = {0, 2}, .bytes = {}}),
            "the numeric: of (0, 2); it has no sample");
}

TEST(Field, OtherNumbersOfSamples_AreErrors) {
  EXPECT_EQ(ErrorOf([](auto& source) { source.fields[1].array = Counting(0, 15); }),
            "the categories: categories of (5, 3) for numeric of (6, 2) in the numeric");
  EXPECT_EQ(ErrorOf([](auto& source) {
              source.labels = Numbers<uint8_t>(ElementType::kUint8, {2}, {0, 1});
            }),
            "y: labels of (2) for numeric of (6, 2) in the numeric");
}

TEST(Field, ElementsThatTheModelCannotTake_AreErrorsThatNameTheSample) {
  const auto numeric_with = [](double odd) {
    return ErrorOf([=](Dataset::Arrays& source) {
      std::memcpy(source.fields[0].array.bytes.data() + 7 * sizeof(double), &odd, sizeof(double));
    });
  };
  EXPECT_EQ(numeric_with(NAN), "the numeric: sample 3 has an element that is nan in float32");
  EXPECT_EQ(numeric_with(1e300), "the numeric: sample 3 has an element that is inf in float32");
  EXPECT_EQ(ErrorOf([](auto& source) { source.fields[1].field.vocabulary = 17; }),
            "the categories: sample 5 has an element that is 17; the model takes 0 to 16");
  EXPECT_EQ(ErrorOf([](auto& source) {
              source.fields[1].field.vocabulary = 100;
              source.fields[1].array = Counting(-4, 18);
            }),
            "the categories: sample 0 has an element that is -4; the model takes 0 to 99");
}

TEST(Field, ArraysThatGrowBeyondTheLimitInMemory_AreErrors) {
  constexpr int64_t kCount = int64_t{1} << 30;  // 1 GiB of booleans in a file become 8 GiB in memory.
  EXPECT_THAT(ErrorOf([](auto& source) {
                source.num_classes = 0;
                source.fields.erase(source.fields.begin());
                source.fields[0].array = {.type = ElementType::kBool, .shape = {kCount, 3}, .bytes = {0}};
              }),
              HasSubstr("the categories: its samples take 34359738368 bytes in memory; at most 4294967296"));
}

class FieldFileTest : public DataFolderTest {
 protected:
  void WriteNpz(const std::vector<std::pair<std::string, std::string>>& entries) {
    zip_t* archive = zip_open((root_ / "f.npz").c_str(), ZIP_CREATE | ZIP_TRUNCATE, nullptr);
    for (const auto& [name, content] : entries) {
      zip_source_t* source = zip_source_buffer(archive, content.data(), content.size(), 0);
      ASSERT_GE(zip_file_add(archive, (name + ".npy").c_str(), source, 0), 0);
    }
    ASSERT_EQ(zip_close(archive), 0);
  }
};

std::string NpyOf(const std::string& type, const std::string& shape, const std::string& elements) {
  return Npy(absl::StrCat("{'descr': '", type, "', 'fortran_order': False, 'shape': ", shape, ", }"), elements);
}

// An archive of two samples: labels, two fields, and an array that nothing reads.
const std::pair<std::string, std::string> kEntries[] = {
    {"y", NpyOf("|u1", "(2,)", std::string("\1\0", 2))},
    {"numeric", NpyOf("<f4", "(2, 2)", std::string("\0\0\x80\x3f\0\0\0\x40\0\0\x40\x40\0\0\x80\x40", 16))},
    {"categories", NpyOf("|u1", "(2, 3)", "abcdef")},
    {"broken", "no array"}};

TEST_F(FieldFileTest, ArchivesOfNumpy_AreReadByTheNamesOfFields) {
  WriteNpz({std::begin(kEntries), std::end(kEntries)});
  Dataset::Numpy source{.archive = At("f.npz"),
                        .images_array = "images",
                        .labels_array = "y",
                        .num_classes = 2,
                        .takes_images = false,
                        .fields = {kNumeric, kCategories}};
  const auto data = Dataset::ReadNumpy(source);
  ASSERT_TRUE(data.ok()) << data.status();
  const Dataset::Samples samples = data->Get({1});
  EXPECT_THAT(NumbersOf<float>(samples.others.at("numeric")), ElementsAre(3, 4));
  EXPECT_THAT(NumbersOf<int64_t>(samples.others.at("categories")), ElementsAre('d', 'e', 'f'));
  source.limit = 1;
  EXPECT_EQ(Dataset::ReadNumpy(source)->size(), 1);
  source.fields.push_back({.name = "absent"});
  EXPECT_EQ(Dataset::ReadNumpy(source).status().message(),
            "f.npz: it has no array \"absent\"; it has y, numeric, categories, broken");
}

TEST_F(FieldFileTest, TensorsOfAFile_AreReadByTheNamesOfFields) {
  const std::string header =
      R"({"mask":{"dtype":"BOOL","shape":[2,1],"data_offsets":[0,2]},"x":{"dtype":"I16","shape":[2],"data_offsets":[2,6]}})";
  Write("f", absl::StrCat(std::string(1, static_cast<char>(header.size())), std::string(7, '\0'), header,
                          std::string("\1\0\5\0\xff\xff", 6)));
  Dataset::Tensors source{.file = At("f"),
                          .images = "images",
                          .labels = "labels",
                          .takes_images = false,
                          .fields = {{.name = "mask", .type = ElementType::kBool, .shape = {1}},
                                     {.name = "x", .type = ElementType::kInt32, .shape = {}}}};
  const auto data = Dataset::ReadSafetensors(source);
  ASSERT_TRUE(data.ok()) << data.status();
  const Dataset::Samples samples = data->Get({1, 0});
  EXPECT_THAT(NumbersOf<bool>(samples.others.at("mask")), ElementsAre(false, true));
  EXPECT_THAT(NumbersOf<int32_t>(samples.others.at("x")), ElementsAre(-1, 5));
  EXPECT_THAT(NumbersOf<int64_t>(samples.labels), ElementsAre(0, 0)) << "none are read";
  source.fields[1].shape = {4};
  EXPECT_EQ(Dataset::ReadSafetensors(source).status().message(),
            "f: tensor \"x\": int16 of (2); the model's input x takes int32 of (samples, 4)");
}

}  // namespace
}  // namespace ampd::data
