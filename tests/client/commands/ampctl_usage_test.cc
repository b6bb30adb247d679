// Tests the messages for wrong command lines of the kinds that people write by mistake. The golden file has the
// messages. Every message must say what is wrong, with which word, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "client/render/format.h"
#include "tests/client/ampctl_fixture.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// The wrong command lines, without "ampctl", as typed in a shell.
std::vector<std::string> WrongLines() {
  return {"",
          "job",
          "jobs list",
          "job lst",
          "job describe j-a",
          "frobnicate",
          "--frobnicate",
          "-x",
          "--colour always job list",
          "--color sometimes job list",
          "--color",
          "-o",
          "-o xml job list",
          "-o json completion bash",
          "job list -o",
          "job list -ojson --limit",
          "job list extra",
          "job list --limit many",
          "job list --limit -1",
          "job list --limit 1.5",
          "job list --limit 99999999999",
          "job list --limit 1 --limit 2",
          "job list --limit=",
          "job list --filter",
          "job list --no-headers=maybe",
          "job list --filter \"$(printf 'caf\\351')\"",
          "job list --address nowhere",
          "job list --address 127.0.0.1:99999",
          "job list --address \"$(printf 'a\\033[31mb')\"",
          "job show",
          "job show ''",
          "job show a b",
          "job show --id a",
          "job show \"$(printf 'a\\377')\"",
          "job submit",
          "job submit job.yaml",
          "job submit -f",
          "job submit -f ''",
          "job submit -f missing.yaml",
          "job submit -f .",
          "job submit -f job.yaml -f job.yaml",
          "job submit -f job.yaml --set",
          "job submit -f job.yaml --set name",
          "job submit -f job.yaml --set \"$(printf 'name=caf\\351')\"",
          "job submit -f job.yaml --name \"$(printf 'caf\\351')\"",
          "job submit -f job.yaml --dry-run=perhaps",
          "job submit -f job.yaml --dryrun",
          "job submit -f job.yaml --follow --name",
          "job submit -f job.yaml --retry-for 10",
          "job submit -f job.yaml --retry-for '10 minutes'",
          "job submit -f job.yaml --retry-for -5s",
          "job submit -f job.yaml --retry-for soon",
          "job submit -f - < latin1.yaml",
          "job submit -f latin1.yaml",
          "job logs --tail-bytes 4Gi j-a",
          "job logs --tail-bytes -1 j-a",
          "job logs --attempt 0 j-a",
          "job wait",
          "job wait --timeout 1w j-a",
          "job scale j-a --set-scale 0",
          "job scale j-a --set-scale nan",
          "job scale j-a --growth-interval 1e3",
          "checkpoint show j-a newest",
          "checkpoint show j-a 1 2",
          "checkpoint export",
          "artifact upload",
          "artifact upload missing.bin",
          "data inspect",
          "data pack . out --size big",
          "model inspect missing.pt2 --preset fp17",
          "context add",
          "context add lab",
          "context add lab nowhere",
          "context add 'two words' 127.0.0.1:1",
          "context use nowhere",
          "completion tcsh",
          "help me",
          "dev --port many",
          "dev --port 65536",
          "dev --port -1",
          "dev --metrics-port 70000",
          "dev --port 7000 --metrics-port 7000",
          "dev --data-root mnist",
          "dev --data-root =job.yaml",
          "dev --data-root mnist=nowhere",
          "dev --data-root mnist=job.yaml",
          "dev --data-group ''",
          "dev --data-group no-such-group",
          "job \"$(printf 'a\\tb')\"",
          "job list \"$(printf 'a\\tb')\"",
          "job list \"$(printf -- '--a\\tb')\"",
          "-- job list",
          "job -- list",
          "help job list extra",
          "job update j-a",
          "job update j-a --priority high",
          "job update j-a --priority 1001",
          "job update j-a --priority -1001",
          "job scale j-a --growth-interval 99999999999",
          "job logs --attempt 99999999999999999999 j-a",
          "data tokenize text out --jsonl --max-length 99999999999999999999",
          "data tokenize text out --jsonl --classes a,,b",
          "data tokenize text out --jsonl --classes a,b,a",
          "--address '' job list",
          "compare --label c-1 --html ''",
          "job list --filter ''",
          "job submit -f job.yaml --set ''",
          "job cancel a ''",
          "job list --page-token ''",
          "job submit -f job.yaml --name ''",
          "job list --interval 5s",
          "worker list --interval 5s",
          "job wait --for running j-a",
          "job list --sort Loss",
          "job list --sort 'loss DESC'",
          "policy show BF16",
          "policy show bfloat16",
          "policy show --device GPU bf16",
          "policy show --model MLP bf16",
          "init - --model ResNet",
          "model inspect missing.pt2 --preset float16",
          "compare -f job.yaml --policies fp32,bf16 --baseline FP32",
          "job watch --interval 0 j-a",
          "compare --label 'c x'",
          "estimate -f wrong.yaml",
          "policy show -f wrong.yaml",
          "compare -f wrong.yaml",
          "job predict --checkpoint j-a@best -f wrong.yaml",
          "job submit -f 'folder/two words.yaml'",
          "job submit -f - < wrong.yaml",
          "job submit -f job.yaml --set train.epoch=3",
          "job submit -f wrong.yaml --set train.epoch=3",
          "job submit -f - < .",
          "job submit -f - <&-",
          "policy show -f - <&-",
          "-f job.yaml job submit --dry-run",
          "job --dry-run submit -f job.yaml",
          "job --filter state=queued",
          "job --tail 5 j-a",
          "--name 'a b' job submit -f job.yaml",
          "joblist -q",
          "worker-list",
          "job logs a b",
          "job logs a b --tail 5",
          "worker drain a b",
          "policy show bf16 fp16",
          "artifact list mlp",
          "job scale j-a 1024",
          "job update j-a priority=5",
          "job list limit=5",
          "health lab:7070",
          "context show lab",
          "job list --sort loss desc",
          "job list --sort -created",
          "job list --sort time,desc",
          "job list --sort name,state",
          "job list --filter state=failed --filter 'name=a OR name=b'",
          "job list -- --limit 3",
          "job list -o yml",
          "job list -o tabel",
          "job logs -o json j-a",
          "job list --columns name,state",
          "job show j-a --watch",
          "job events j-a --tail 3",
          "auth token list --all",
          "worker list --filter state=idle",
          "checkpoint download j-a --force",
          "checkpoint download j-a@latest",
          "checkpoint download j-a --step last",
          "checkpoint download j-a job.yaml",
          "checkpoint delete j-a@step-20",
          "job submit mlp",
          "estimate mlp",
          "job logs j-a --tail all",
          "job logs j-a --since yesterday",
          "job logs j-a --since '2 hours ago'",
          "job logs j-a --since -10m",
          "job wait j-a --timeout forever",
          "job wait j-a --for done",
          "auth token create a --role viewer --expires 90",
          "auth token create a --role viewer --expires never",
          "auth token create a --role viewer,submitter",
          "compare -f job.yaml --price '$2,50'",
          "--address 127.0.0.1:1 --ca missing.pem job list",
          "--address 127.0.0.1:1 --token-file missing job list",
          "job predict --checkpoint j-a -f missing.yaml"};
}

TEST_F(Ampctl, AWrongCommandLine_IsExplained) {
  Write("job.yaml", "name: x\ndata:\n  batch_size: 4\n");
  Write("latin1.yaml", "name: caf\xe9\n");
  Write("wrong.yaml", "nam: x\n");
  std::filesystem::create_directories(folder_ + "/folder");
  Write("folder/two words.yaml", "nam: x\n");
  std::string all;
  for (const std::string& line : WrongLines()) {
    SCOPED_TRACE(line);
    const Result result = Run(line);
    EXPECT_NE(result.exit_code, 0);
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(PrintableLines(result.err), result.err) << "nothing in it may control a terminal";
    EXPECT_THAT(result.err, Not(HasSubstr("Run with --help")));
    absl::StrAppend(&all, "$ ampctl ", line, "\n", result.err, "exit code ", result.exit_code, "\n");
  }
  ExpectGolden("tests/golden/client/wrong_command_lines.txt", all);
}

}  // namespace
}  // namespace ampd::client
