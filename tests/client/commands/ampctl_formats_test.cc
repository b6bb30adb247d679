#include <gmock/gmock.h>
#include <google/protobuf/struct.pb.h>
#include <google/protobuf/util/json_util.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "base/formats/sha256.h"
#include "client/render/format.h"
#include "client/terminal/formats.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/client/commands/checkpoint_fixture.h"
#include "tests/graph/exported/exported_net.h"

namespace ampd::client {
namespace {

using graph::Net;
using graph::WriteArchive;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;

std::vector<std::string> Lines(const std::string& text) { return absl::StrSplit(text, '\n', absl::SkipEmpty()); }

bool IsJson(const std::string& text) {
  google::protobuf::Value value;
  return google::protobuf::util::JsonStringToMessage(text, &value).ok() &&
         (value.has_struct_value() || value.has_list_value());
}

// Returns whether the text is indented JSON: one value, or several objects one after the other.
bool IsIndentedJson(const std::string& text) {
  std::vector<std::string> objects = {""};
  for (const std::string& line : Lines(text)) {
    objects.back() += line + "\n";
    if (line == "}") {
      objects.emplace_back();
    }
  }
  objects.resize(objects.size() - (objects.back().empty() ? 1 : 0));
  return !objects.empty() && std::all_of(objects.begin(), objects.end(), IsJson);
}

bool AreYamlDocuments(const std::string& text) {
  const std::vector<YAML::Node> documents = YAML::LoadAll(text);
  return !documents.empty() && std::all_of(documents.begin(), documents.end(), [](const YAML::Node& node) {
    return node.IsMap() && node.size() > 0 && node.Style() == YAML::EmitterStyle::Block;
  });
}

bool IsAWord(const std::string& line) { return !line.empty() && line.find_first_of(" {") == std::string::npos; }

bool HasShape(const std::string& text, OutputFormat format) {
  const std::vector<std::string> lines = Lines(text);
  switch (format) {
    case OutputFormat::kJson:
      return IsIndentedJson(text);
    case OutputFormat::kJsonLines:
      return !lines.empty() && std::all_of(lines.begin(), lines.end(), IsJson);
    case OutputFormat::kYaml:
      return AreYamlDocuments(text);
    case OutputFormat::kName:
      return !lines.empty() && std::all_of(lines.begin(), lines.end(), IsAWord);
    case OutputFormat::kCsv:
      return !lines.empty() && absl::StrContains(lines[0], ",") && !absl::StrContains(lines[0], ", ");
    case OutputFormat::kTable:
    case OutputFormat::kWide:
    case OutputFormat::kMarkdown:
    case OutputFormat::kHtml:
      return !lines.empty() && !IsJson(text);
  }
  return false;
}

// Returns the state that a job must have for the command to succeed.
v1::Job::State StateFor(const std::string& command) {
  return command == "job gradients" || command == "job profile" ? v1::Job::RUNNING : v1::Job::SUCCEEDED;
}

// Returns the text with job ids shortened to "j-", because the ids differ from run to run.
std::string WithoutIds(std::string text) {
  for (size_t at = text.find("j-"); at != std::string::npos; at = text.find("j-", at + 1)) {
    text.replace(at, text.find_first_of(" \n\"", at) - at, "j-");
  }
  return text;
}

class AmpctlFormats : public Ampctl {
 protected:
  // Returns the subcommands that the help of a command lists.
  std::vector<std::string> Subcommands(const std::string& command) {
    std::vector<std::string> names;
    bool below = false;
    for (const absl::string_view line : absl::StrSplit(Run(command + " --help").out, '\n')) {
      below = (below || line == "Subcommands:") && !line.empty();
      if (below && absl::StartsWith(line, "  ") && !absl::StartsWith(line, "   ")) {
        names.push_back(std::vector<std::string>(absl::StrSplit(line, absl::ByAnyChar(" ,"), absl::SkipEmpty()))[0]);
      }
    }
    return names;
  }

  // Returns all commands below `group` ("": all commands of ampctl) that have no subcommands.
  std::vector<std::string> AllCommands(const std::string& group = "") {
    const std::vector<std::string> below = Subcommands(group);
    std::vector<std::string> all;
    for (const std::string& name : below) {
      const std::vector<std::string> leaves = AllCommands(group.empty() ? name : absl::StrCat(group, " ", name));
      all.insert(all.end(), leaves.begin(), leaves.end());
    }
    return below.empty() ? std::vector<std::string>{group} : all;
  }

  std::vector<std::string> FormatsInHelp(const std::string& command) {
    constexpr char kHeading[] = "Formats (-o): ";
    for (const std::string& line : Lines(Run(command + " --help").out)) {
      if (absl::StartsWith(line, kHeading)) {
        return absl::StrSplit(line.substr(sizeof(kHeading) - 1), ", ");
      }
    }
    return {"table"};  // If a command prints only texts for people, its help does not list formats.
  }

  // Adds a job with a checkpoint, and returns its id.
  std::string JobId(v1::Job::State state = v1::Job::SUCCEEDED) {
    v1::Job job = fake_.jobs.Add("n", state);
    job.add_checkpoints()->set_step(20);
    const auto manifest = ReadFile(folder_ + "/ck/state.json", 1 << 20);
    job.mutable_checkpoints(0)->set_manifest_sha256(Sha256Hex(manifest.value_or("")));
    fake_.jobs.Put(job);
    return job.id();
  }
};

// A PNG file with one grey pixel of the value 90.
const std::string kOnePixelPng(
    "\x89\x50\x4e\x47\x0d\x0a\x1a\x0a\x00\x00\x00\x0d\x49\x48\x44\x52\x00\x00\x00\x01\x00\x00\x00\x01"
    "\x08\x00\x00\x00\x00\x3a\x7e\x9b\x55\x00\x00\x00\x0a\x49\x44\x41\x54\x78\x9c\x63\x88\x02\x00\x00"
    "\x5c\x00\x5b\xd8\xb4\x56\x5a\x00\x00\x00\x00\x49\x45\x4e\x44\xae\x42\x60\x82",
    67);

// Returns the arguments with which to run each command. The test replaces ID by the id of a new job, and DIGEST by an
// artifact that exists. It does not run "dev", which has only the text format.
const std::map<std::string, std::string>& ArgumentsOf() {
  static const std::map<std::string, std::string> kArguments = {{"job submit", "-f job.yaml"},
                                                                {"job list", ""},
                                                                {"job show", "ID"},
                                                                {"job explain", "ID"},
                                                                {"job events", "ID"},
                                                                {"job points", "ID"},
                                                                {"job watch", "ID"},
                                                                {"job logs", "ID"},
                                                                {"job wait", "ID"},
                                                                {"job update", "--priority 1 ID"},
                                                                {"job scale", "--set-scale 1024 ID"},
                                                                {"job gradients", "ID"},
                                                                {"job profile", "ID profiled --force"},
                                                                {"job cancel", "ID"},
                                                                {"job pause", "ID"},
                                                                {"job resume", "ID"},
                                                                {"job delete", "--yes ID"},
                                                                {"job retry", "ID"},
                                                                {"job clone", "ID"},
                                                                {"job predict", "--checkpoint ID -f job.yaml"},
                                                                {"init", "written.yaml --force"},
                                                                {"compare", "ID"},
                                                                {"estimate", "-f job.yaml"},
                                                                {"checkpoint list", "ID"},
                                                                {"checkpoint show", "ID"},
                                                                {"checkpoint verify", "ck"},
                                                                {"checkpoint download", "ID downloaded"},
                                                                {"checkpoint export", "ck model.safetensors --force"},
                                                                {"checkpoint delete", "--yes ID 20"},
                                                                {"artifact list", ""},
                                                                {"artifact upload", "labels"},
                                                                {"artifact download", "DIGEST back --force"},
                                                                {"artifact delete", "--yes DIGEST"},
                                                                {"policy list", ""},
                                                                {"policy show", "bf16"},
                                                                {"data inspect", "labels"},
                                                                {"data tokenize", "text tokens.bin --force"},
                                                                {"data pack", "pictures packed --size 1 --force"},
                                                                {"model inspect", "net.pt2"},
                                                                {"worker list", ""},
                                                                {"worker drain", "w1"},
                                                                {"worker undrain", "w1"},
                                                                {"worker remove", "w1"},
                                                                {"audit", ""},
                                                                {"login", "lab ADDRESS < token"},
                                                                {"auth whoami", ""},
                                                                {"auth token create", "ci --role viewer"},
                                                                {"auth token list", ""},
                                                                {"auth token revoke", "ci"},
                                                                {"context add", "lab 127.0.0.1:1"},
                                                                {"context use", "lab"},
                                                                {"context remove", "other"},
                                                                {"context list", ""},
                                                                {"context show", ""},
                                                                {"health", ""},
                                                                {"completion", "bash"},
                                                                {"help", "exit-codes"},
                                                                {"version", ""},
                                                                {"dev", "--port 0 --metrics-port 0"}};
  return kArguments;
}

TEST_F(AmpctlFormats, EveryCommandHasOrRefusesEveryFormatAndIgnoresNone) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  Write("token", "ampd_token\n");
  Write("labels", std::string("\0\0\x08\x01\0\0\0\x01\x02", 9));  // an IDX file with one label
  Write("text", "In the beginning was the word.\n");
  std::filesystem::create_directories(folder_ + "/pictures/cat");
  Write("pictures/cat/one.png", kOnePixelPng);
  WriteArchive(folder_ + "/net.pt2", Net());
  Run("context add lab 127.0.0.1:1");
  Run("context add other 127.0.0.1:2");
  JobId();
  WriteCheckpoint(folder_ + "/ck");
  fake_.artifacts.AddToEveryJob("a profile", "profile-1.json.gz");
  for (const auto& entry : std::filesystem::directory_iterator(folder_ + "/ck")) {
    fake_.jobs.script()->checkpoint_files[entry.path().filename()] = *ReadFile(entry.path(), 1 << 20);
  }
  const std::vector<std::string> commands = AllCommands();
  EXPECT_EQ(commands.size(), ArgumentsOf().size());
  for (const std::string& command : commands) {
    SCOPED_TRACE(command);
    ASSERT_TRUE(ArgumentsOf().contains(command)) << "not covered here";
    const std::vector<std::string> has = FormatsInHelp(command);
    EXPECT_THAT(has, ::testing::Contains("table"));
    std::map<std::string, std::string> by_output;
    for (const OutputFormat format : KnownFormats()) {
      const std::string name = FormatName(format);
      const bool expected = std::find(has.begin(), has.end(), name) != has.end();
      if (command == "dev" && expected) {
        continue;
      }
      fake_.jobs.script()->answers_gradients = command == "job gradients";
      fake_.jobs.script()->profile_files = command == "job profile" ? 1 : 0;
      const std::string ids = command == "job list"  ? ""
                              : command == "compare" ? absl::StrCat(JobId(), " ", JobId())
                                                     : JobId(StateFor(command));
      const std::string arguments =
          absl::StrReplaceAll(ArgumentsOf().at(command),
                              {{"DIGEST", fake_.artifacts.Add("content")}, {"ID", ids}, {"ADDRESS", fake_.address()}});
      const Result result = Run(absl::StrCat(command, " ", arguments, " -o ", name));
      if (!expected) {
        EXPECT_EQ(result.exit_code, 2) << name;
        EXPECT_EQ(result.out, "") << name;
        const std::string formats =
            has.size() == 1 ? "only format is table, so omit -o" : "formats are " + absl::StrJoin(has, ", ");
        EXPECT_THAT(result.err, HasSubstr(absl::StrCat("ampctl ", command, " does not support the format '", name,
                                                       "'; its ", formats)));
        continue;
      }
      EXPECT_EQ(result.exit_code, 0) << name << "\n" << result.err;
      if (has.size() == 1) {
        continue;  // plain text may be empty
      }
      EXPECT_TRUE(HasShape(result.out, format)) << name << "\n" << result.out;
      const std::string shown = WithoutIds(result.out);
      // In the text format, the commands that create a job print only the job's id. So `-o name` prints the same.
      const bool says_the_same = format == OutputFormat::kName && (command == "job submit" || command == "job retry" ||
                                                                   command == "job clone" || command == "job predict");
      EXPECT_TRUE(says_the_same || by_output.emplace(shown, name).second)
          << name << " is the same as " << by_output[shown] << "\n"
          << result.out;
    }
  }
}

TEST_F(AmpctlFormats, EventsAndPoints_AreOneALineForPrograms) {
  const std::string id = JobId();
  EXPECT_THAT(Lines(Run("job events -o jsonl " + id).out),
              ElementsAre(HasSubstr("\"kind\":\"CREATED\""), HasSubstr("\"kind\":\"OVERFLOW\"")));
  EXPECT_THAT(Lines(Run("job points -o jsonl " + id).out),
              ElementsAre("{\"attempt\":1,\"step\":\"1\",\"loss\":0.5,\"gradNorm\":\"Infinity\",\"lossScale\":65536,"
                          "\"skipped\":false,\"learningRate\":0.125}",
                          "{\"attempt\":1,\"step\":\"2\",\"loss\":0.25,\"gradNorm\":\"Infinity\",\"lossScale\":65536,"
                          "\"skipped\":true,\"learningRate\":0.125}",
                          "{\"attempt\":1,\"eval\":{\"accuracy\":0.75}}"));
}

TEST_F(AmpctlFormats, PointsOfAGanHaveBothNetworks) {
  const std::string id = JobId();
  EXPECT_THAT(Run("job points " + id).out, Not(HasSubstr("GENERATOR")));
  fake_.jobs.script()->trains_gans = true;
  EXPECT_THAT(Lines(Run("job points " + id).out),
              ElementsAre("ATTEMPT  STEP  LOSS  GRAD NORM  GENERATOR LOSS  GENERATOR NORM  SCALE  SKIPPED",
                          "1        1     0.5   inf        3.5             0.75            65536",
                          "1        2     0.25  inf        3.5             0.75            65536  generator"));
  EXPECT_THAT(Lines(Run("job points -o jsonl " + id).out)[1],
              HasSubstr(R"("phases":[{"name":"discriminator","loss":3.5,"gradNorm":0.75,"skipped":false},)"
                        R"({"name":"generator","loss":3.5,"gradNorm":0.75,"skipped":true}]})"));
}

TEST_F(AmpctlFormats, WideHasWhatTheTableLeavesOut) {
  const std::string id = JobId();
  const std::string workers = Run("worker list -o wide").out;
  EXPECT_THAT(workers, HasSubstr("CAPABILITY"));
  EXPECT_THAT(workers, HasSubstr("9.0"));
  EXPECT_THAT(workers, HasSubstr("1.2.3"));
  const std::string verdicts = Run("job explain -o wide " + id).out;
  EXPECT_THAT(verdicts, HasSubstr("NEEDED   AVAILABLE"));
  EXPECT_THAT(verdicts, HasSubstr("8.0 GiB  4.0 GiB"));
  EXPECT_THAT(Run("job events -o wide " + id).out, HasSubstr("scale=65536"));
  EXPECT_THAT(Run("job points -o wide " + id).out, HasSubstr("LEARNING RATE"));
}

TEST_F(AmpctlFormats, SeveralJobsAreOneArrayAndYamlDocuments) {
  const std::string first = JobId();
  const std::string ids = first + " " + JobId();
  for (const char* command : {"job wait ", "job cancel "}) {
    EXPECT_TRUE(IsJson(Run(command + ids + " -o json").out)) << command;
    EXPECT_EQ(YAML::LoadAll(Run(command + ids + " -o yaml").out).size(), 2) << command;
    EXPECT_EQ(Lines(Run(command + ids + " -o jsonl").out).size(), 2) << command;
  }
  EXPECT_EQ(Run("job wait -o name " + first).out, first + "\n");
}

TEST_F(AmpctlFormats, ADryRunIsOneObjectOfSpecPoliciesAndMemory) {
  Write("job.yaml", "name: x\nprecision: {preset: bf16}\ndata:\n  batch_size: 4\n");
  const std::string command = "job submit -f job.yaml --dry-run -o ";
  const std::string json = Run(command + "json").out;
  ASSERT_TRUE(IsJson(json)) << json;
  EXPECT_EQ(Lines(Run(command + "jsonl").out).size(), 1u);
  const std::string yaml = Run(command + "yaml").out;
  for (const std::string& text : {json, yaml}) {
    const bool is_json = text == json;
    const YAML::Node all = YAML::Load(text);
    EXPECT_EQ(all["spec"]["data"][is_json ? "batchSize" : "batch_size"].as<int>(), 4);
    ASSERT_EQ(all["policies"].size(), 1u);
    EXPECT_EQ(all["policies"][0]["device"].as<std::string>(), "w1/gpu0") << "the device of the only worker";
    EXPECT_EQ(all["policies"][0]["table"]["preset"].as<std::string>(), "bf16");
    EXPECT_EQ(all["memory"]["candidates"][0][is_json ? "largestBatchSize" : "largest_batch_size"].as<int>(), 77);
  }
  const std::string on_cpu = Run("job submit -f job.yaml --set resources.kind=CPU --dry-run -o json").out;
  ASSERT_EQ(YAML::Load(on_cpu)["policies"].size(), 1u);
  EXPECT_EQ(YAML::Load(on_cpu)["policies"][0]["device"].as<std::string>(), "CPU with avx512_bf16")
      << "an example, because no worker has a CPU";
}

TEST_F(AmpctlFormats, AFollowedSubmitHasTheFormatsOfAWatch) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  for (const char* flag : {"--follow", "--dry-run"}) {
    const Result result = Run(absl::StrCat("job submit -f job.yaml -o name ", flag));
    EXPECT_EQ(result.exit_code, 2);
    EXPECT_THAT(
        result.err,
        HasSubstr(absl::StrCat(flag, " does not support the format 'name'; its formats are table, json, jsonl, yaml")));
  }
  EXPECT_EQ(fake_.jobs.size(), 0);
}

TEST_F(AmpctlFormats, NothingFromAHostileServerControlsTheTerminal) {
  // Commands that print no text of the server.
  const std::set<std::string> kLocal = {"checkpoint verify",
                                        "checkpoint export",
                                        "checkpoint download",
                                        "policy list",
                                        "data inspect",
                                        "data tokenize",
                                        "data pack",
                                        "init",
                                        "model inspect",
                                        "context add",
                                        "context use",
                                        "context remove",
                                        "context list",
                                        "context show",
                                        "completion",
                                        "help",
                                        "dev",
                                        "health",
                                        "auth token revoke",
                                        "worker remove",
                                        "artifact download",
                                        "job delete"};
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  Write("token", "ampd_token\n");
  Write("labels", std::string("\0\0\x08\x01\0\0\0\x01\x02", 9));
  fake_.artifacts.AddToEveryJob("a profile", "profile-1.json.gz");
  for (const auto& [command, arguments] : ArgumentsOf()) {
    bool shows_a_text = kLocal.contains(command) || command == "job logs";  // ampctl escapes a log only on a terminal
    for (const std::string& format : shows_a_text ? std::vector<std::string>() : FormatsInHelp(command)) {
      SCOPED_TRACE(absl::StrCat(command, " -o ", format));
      fake_.jobs.script()->answers_gradients = command == "job gradients";
      fake_.jobs.script()->profile_files = command == "job profile" ? 1 : 0;
      fake_.jobs.script()->trains_gans = command == "job points";
      fake_.hostile_text.Set("");
      const std::string words =
          absl::StrReplaceAll(arguments, {{"DIGEST", fake_.artifacts.Add("content")},
                                          {"ID", command == "job list" ? "" : JobId(StateFor(command))},
                                          {"ADDRESS", fake_.address()}});
      fake_.hostile_text.Set(kHostile);
      const Result result = Run(absl::StrCat(command, " ", words, " --color always -o ", format));
      for (const std::string& text : {result.out, result.err}) {
        EXPECT_EQ(ColouredLines(text), text);
        EXPECT_THAT(text, Not(HasSubstr("\x1b[31mRED")));
        // The server returns a policy's table as one text, so its line breaks are printed.
        EXPECT_TRUE(command == "policy show" || !absl::StrContains(text, "\nFORGED")) << text;
        shows_a_text = shows_a_text || absl::StrContains(text, "\\u202eFLIP");
      }
    }
    // The command compare prints only policies and numbers, and the fake server puts no hostile text into these.
    EXPECT_TRUE(shows_a_text || command == "compare")
        << command << " shows no text of the server, so it belongs to kLocal";
  }
}

}  // namespace
}  // namespace ampd::client
