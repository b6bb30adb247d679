#include "client/render/yaml_text.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <cmath>
#include <cstdint>
#include <limits>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "ampd/v1/job.pb.h"
#include "ampd/v1/job_spec.pb.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/problems_text.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

// Returns texts that need quotes in YAML: without quotes, some reader of YAML would read another type of value, or the
// text would break the line or the file.
std::vector<std::string> HardTexts() {
  return {"no",
          "No",
          "NO",
          "n",
          "N",
          "y",
          "yes",
          "Yes",
          "on",
          "off",
          "Off",
          "true",
          "True",
          "false",
          "null",
          "Null",
          "~",
          "",
          "012",
          "0o17",
          "0x1",
          "0b1",
          "1e3",
          "1.5e-3",
          "1_000",
          "+1",
          "-1",
          ".5",
          ".inf",
          "-.inf",
          ".nan",
          "nan",
          "inf",
          "Infinity",
          "1:20",
          "190:20:30",
          "12:30:45",
          "2026-01-31",
          "2026-01-31T23:59:59Z",
          "2026-01-31 23:59:59",
          "90s",
          "=",
          "<<",
          "-",
          "--",
          "---",
          "...",
          "- a",
          "? a",
          ": a",
          "a: b",
          "a:",
          "a #b",
          "#a",
          " a",
          "a ",
          "@a",
          "`a",
          "%a",
          "!a",
          "!!str a",
          "&a",
          "*a",
          "|",
          ">",
          "{}",
          "[]",
          "{a: b}",
          "[a, b]",
          "'a'",
          "\"a\"",
          "it's",
          "\\",
          "a\\nb",
          "a\nb",
          "a\n",
          "\ta",
          "a\tb",
          "a\rb",
          "\x1b[31m",
          "\x7f",
          "\u0085",
          "\u202e",
          "\u2028",
          "\u061c",
          "\uFEFFa",
          "\u00e4",
          "\u4e16",
          "\U0001f600",
          "a,b",
          std::string("a\0b", 3),
          "j-abc",
          "bf16",
          "fp8_e4m3",
          "aten.linear.default",
          "w1/gpu0",
          "x86-64"};
}

TEST(Yaml, TextsAndNumbersMeanTheSameToEveryReader) {
  YamlValue::Mapping texts;
  for (const std::string& text : HardTexts()) {
    texts.push_back({text, YamlTextOf(text)});
  }
  YamlValue::Mapping numbers;
  for (const int64_t number : {int64_t{0}, int64_t{-1}, int64_t{65536}, std::numeric_limits<int64_t>::max()}) {
    numbers.push_back({absl::StrCat(number), YamlNumberOf(number)});
  }
  numbers.push_back({"18446744073709551615", YamlNumberOf(std::numeric_limits<uint64_t>::max())});
  for (const double number : {0.1, 1e-05, 2.5e-07, 1e+22, 65536.5, -3e-300}) {
    numbers.push_back({absl::StrCat(number), YamlNumberOf(number)});
  }
  numbers.push_back({"0.001", YamlNumberOf(0.001F)});
  numbers.push_back({"inf", YamlNumberOf(std::numeric_limits<double>::infinity())});
  numbers.push_back({"-inf", YamlNumberOf(-std::numeric_limits<float>::infinity())});
  numbers.push_back({"nan", YamlNumberOf(std::nan(""))});
  const YamlValue all = {
      YamlValue::Mapping{{"texts", {texts}},
                         {"numbers", {numbers}},
                         {"flags", {YamlValue::Mapping{{"True", YamlFlagOf(true)}, {"False", YamlFlagOf(false)}}}}}};
  const std::string yaml = WriteYaml(all);
  // tests/client/render/yaml_readers_test.py reads this golden file with PyYAML, which implements YAML 1.1.
  ExpectGolden("tests/golden/client/values.yaml", yaml);
  const YAML::Node read = YAML::Load(yaml);
  for (const std::string& text : HardTexts()) {
    EXPECT_EQ(read["texts"][text].as<std::string>(), text);
  }
  EXPECT_EQ(read["texts"].size(), HardTexts().size());
}

TEST(Yaml, BlocksListsAndEmptyValues) {
  const YamlValue item = {
      YamlValue::Mapping{{"a", YamlNumberOf(int64_t{1})}, {"b", {YamlValue::List{YamlTextOf("x")}}}}};
  const YamlValue value = {
      YamlValue::Mapping{{"list", {YamlValue::List{item, YamlTextOf("word"), {YamlValue::List{item}}}}},
                         {"none", {YamlValue::List{}}},
                         {"empty", {YamlValue::Mapping{}}},
                         {"deep", {YamlValue::Mapping{{"er", item}}}}}};
  EXPECT_EQ(WriteYaml(value),
            "list:\n"
            "  - a: 1\n"
            "    b:\n"
            "      - x\n"
            "  - word\n"
            "  -\n"
            "    - a: 1\n"
            "      b:\n"
            "        - x\n"
            "none: []\n"
            "empty: {}\n"
            "deep:\n"
            "  er:\n"
            "    a: 1\n"
            "    b:\n"
            "      - x\n");
  EXPECT_EQ(YAML::Load(WriteYaml(value))["list"][2][0]["a"].as<int>(), 1);
  EXPECT_EQ(WriteYaml({YamlValue::Mapping{}}), "{}\n");
}

TEST(Yaml, AMessageHasItsFieldsInSnakeCase) {
  v1::Job job;
  job.set_id("j-a");
  job.mutable_spec()->set_name("no");
  job.mutable_spec()->mutable_data()->set_batch_size(256);
  job.mutable_spec()->mutable_deadline()->set_seconds(5400);
  job.mutable_spec()->mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(1024);
  job.mutable_spec()->mutable_optimizer()->mutable_adamw()->set_learning_rate(1e-5);
  job.mutable_spec()->mutable_resources()->set_memory_bytes(int64_t{4} << 30);
  (*job.mutable_spec()->mutable_labels())["on"] = "1e3";
  (*job.mutable_spec()->mutable_labels())["teamName"] = "a";
  job.mutable_create_time()->set_seconds(1'000'000'000);
  job.set_state(v1::Job::RUNNING);
  job.mutable_progress()->set_step(300);
  job.mutable_progress()->set_loss(std::numeric_limits<float>::quiet_NaN());
  EXPECT_EQ(WriteYaml(YamlOf(job)),
            "id: j-a\n"
            "spec:\n"
            "  name: \"no\"\n"
            "  data:\n"
            "    batch_size: 256\n"
            "  precision:\n"
            "    loss_scale:\n"
            "      static:\n"
            "        scale: 1024\n"
            "  optimizer:\n"
            "    adamw:\n"
            "      learning_rate: 1.0e-05\n"
            "  resources:\n"
            "    memory_bytes: 4294967296\n"
            "  labels:\n"
            "    \"on\": \"1e3\"\n"
            "    teamName: a\n"
            "  deadline: \"5400s\"\n"
            "state: RUNNING\n"
            "create_time: \"2001-09-09T01:46:40Z\"\n"
            "progress:\n"
            "  step: 300\n"
            "  loss: .nan\n");
}

TEST(Yaml, ASpecIsAJobFileAgain) {
  const auto text = ReadFile(std::string(AMPD_SOURCE_DIR) + "/examples/fashion.yaml", 1 << 20);
  ASSERT_TRUE(text.ok());
  v1::JobSpec spec = ReadJobFile(*text, "fashion.yaml", {}).spec;
  spec.set_name("1:20");
  spec.mutable_deadline()->set_seconds(129600);
  (*spec.mutable_labels())["off"] = "\x1b[31m\u202e";
  spec.mutable_precision()->mutable_loss_scale()->mutable_fixed()->set_scale(0.1);
  const JobFile again = ReadJobFile(WriteYaml(YamlOf(spec)), "again.yaml", {});
  EXPECT_TRUE(again.problems.empty()) << ProblemsText(again.problems, {});
  EXPECT_EQ(again.spec.SerializeAsString(), spec.SerializeAsString());
}

TEST(Yaml, NamesInCamelCaseBecomeSnakeCase) {
  EXPECT_EQ(SnakeCase("sizeBytes"), "size_bytes");
  EXPECT_EQ(SnakeCase("sha256"), "sha256");
}

}  // namespace
}  // namespace ampd::client
