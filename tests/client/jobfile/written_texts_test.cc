// Job files and overrides as people write them: right, nearly right and wrong. The golden files show what ampctl reads
// or says. Every message must say what is wrong, with which value, and what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "client/jobfile/job_file.h"
#include "client/jobfile/problems_text.h"
#include "client/render/format.h"
#include "client/render/yaml_text.h"
#include "tests/golden_file.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::Not;

// Returns the problems, or the spec as YAML if there are none.
std::string Answer(const std::string& text, const std::vector<std::string>& overrides) {
  const JobFile file = ReadJobFile(text, "job.yaml", overrides);
  return file.problems.empty() ? WriteYaml(YamlOf(file.spec))
                               : ProblemsText(file.problems, {.command = "ampctl job submit -f job.yaml --dry-run"});
}

// Returns an ASCII text as UTF-16, little-endian.
std::string Utf16(const std::string& text) {
  std::string wide;
  for (const char c : text) {
    wide += c;
    wide += '\0';
  }
  return wide;
}

std::string Nested(int depth) {
  std::string text = "labels: ";
  for (int i = 0; i < depth; ++i) {
    text += "{a: ";
  }
  return text + std::string(depth, '}') + "\n";
}

std::vector<std::pair<std::string, std::string>> Files() {
  const std::string long_word(300, 'x');
  return {
      // Encodings and line ends.
      {"a byte order mark", "\xEF\xBB\xBFname: a\n"},
      {"CRLF", "name: a\r\ndata:\r\n  batch_size: 4\r\n"},
      {"old Mac line ends", "name: a\rqueue: b\r"},
      {"no line end at the end", "name: a"},
      {"UTF-16 with a byte order mark", "\xFF\xFE" + Utf16("name: a\n")},
      {"UTF-16 without a byte order mark", Utf16("name: a\n")},
      {"UTF-32", std::string("\xFF\xFE\0\0n\0\0\0", 8)},
      {"Latin-1", "name: a\nlabels: {city: M\xFCnchen}\n"},
      {"a character that is cut off at the end", "name: \xE4\xB8"},
      {"a zero byte", std::string("name: a\nqueue: b\0c\n", 19)},
      {"an escape sequence", "name: a\x1b[31mb\n"},
      {"an escape sequence, escaped", "name: \"a\\e[31mb\"\n"},
      {"characters beyond ASCII", "name: \u4e16\u754c\nlabels: {emoji: \U0001f600}\n"},
      {"a no-break space as indentation", "data:\n\u00a0\u00a0batch_size: 4\n"},
      {"a no-break space behind a colon", "name:\u00a0a\nmodel: {lenet: {}}\n"},
      {"a no-break space behind a number", "data: {batch_size: 4\u00a0}\n"},
      {"characters that nobody sees",
       "\"na\u200bme\": a\nlabels: {a\u00ad: b\ufeff\u2060\u3164\u034f\ufe0f\u180e\U000e0041}\n"},
      {"a gzip file", "\x1F\x8B\x08\x00 and more"},
      {"a ZIP archive", "PK\x03\x04 and more"},
      {"a binary file", std::string("\x7F"
                                    "ELF\x02\x01\x01\x00\xFF\xFE",
                                    10)},
      {"TOML", "name = \"a\"\n[train]\nsteps = 5\n"},
      {"INI", "[job]\nname=a\n"},
      {"an INI file without sections", "name=a\nsteps=5\n"},
      {"a template", "name: {{ name }}\n"},
      {"the body of a request", "spec:\n  name: a\n  train: {steps: 5}\n"},
      {"another mapping around a field that does not exist", "spec:\n  nam: a\n"},
      {"a last line without a colon", "name: a\nmodel\n"},
      {"a last line without a colon in a section", "data:\n  batch_size: 4\n  train\n"},
      {"a line without a colon before its section", "name: a\noptimizer\n  adamw: {learning_rate: 0.1}\n"},
      {"an empty value before another key", "name:\n\n# the queue\nqueue: a\n"},
      {"labels as a list", "labels: [a, b]\n"},
      {"labels as a word", "labels: a\n"},
      {"the output of job show", "id: j-a\nspec: {name: a}\nstate: QUEUED\n"},
      // Layout.
      {"tabs as indentation", "data:\n\tbatch_size: 4\n"},
      {"a tab behind a colon", "name:\ta\n"},
      {"indentation that is off", "data:\n  batch_size: 4\n   last_batch: PAD\n"},
      {"no space behind a colon", "name:a\n"},
      {"a colon in a value", "name: a: b\n"},
      {"an unclosed bracket", "model: {lenet: {widths: [8, 16}}\n"},
      {"a bracket too many", "model: {lenet: {}}}\n"},
      {"an unclosed quote", "name: \"a\nqueue: b\n"},
      {"a list item in the line of its key", "model: - lenet\n"},
      {"only a list", "- name: a\n"},
      {"only a word", "a\n"},
      {"an empty file", ""},
      {"only blanks", "  \n\n"},
      {"only a comment", "# name: a\n"},
      {"a document start and end", "---\nname: a\n...\n"},
      {"two documents", "name: a\n---\nname: b\n"},
      {"JSON", "{\"name\": \"a\", \"data\": {\"batchSize\": 4}}\n"},
      {"no space behind a colon in a section", "train:\n  steps:5  # or epochs\n  seed: 0\n"},
      {"no space behind the last colon of a section", "train:\n  steps: 5\n  seed:0\neval:\n  every_steps: 1\n"},
      {"an equals sign in place of a colon", "train:\n  steps = 5\n  seed: 0\n"},
      {"an equals sign in the last line", "optimizer:\n  adamw:\n    beta1: 0.5\n    learning_rate=1e-3\n"},
      {"an equals sign in a mapping in braces", "optimizer: {adamw: {learning_rate=1e-3}}\n"},
      {"a field without its value before another field", "train:\n  steps  # how many\n  seed: 0\n"},
      {"no space behind the dashes of a list", "model:\n  lenet:\n    widths:\n    -8\n    -16\n    hidden: 3\n"},
      {"no space behind the dashes of a list of its own", "model:\n  lenet:\n    widths:\n      -8\n      -16\n"},
      {"text behind a quote", "name: \"a\" b\nqueue: c\n"},
      {"a sentence in the first line", "This is a job.\n# of mine\nname: a\n"},
      {"text behind the end of the document", "name: a\n...\njunk\n"},
      {"marks of a merge conflict", "name: a\n<<<<<<< HEAD\nqueue: b\n=======\nqueue: c\n>>>>>>> main\n"},
      {"a code block of Markdown", "```yaml\nname: a\n```\n"},
      {"an include", "name: a\n!include x.yaml\nmodel:\n  lenet: {}\n"},
      {"an include as a value", "model: !include x.yaml\n"},
      {"a byte order mark in the middle", "name: a\n\ufeff\nmodel:\n  lenet: {}\n"},
      // Features of YAML, some of which job files do not support, and texts that look like such features.
      {"a merge key", "data: &d {batch_size: 3}\neval:\n  <<: *d\n"},
      {"an anchor and its alias", "data:\n  train: &d {synthetic: {num_samples: 9}}\n  eval: *d\n"},
      {"a pattern that looks like an alias", "precision: {module_rules: [{match: *head, compute: fp32}]}\n"},
      {"a pattern that begins with a star and a dot", "precision: {module_rules: [{match: *.head, compute: fp32}]}\n"},
      {"a core tag", "name: !!str 5\n"},
      {"another tag", "name: !secret a\n"},
      {"a value that begins with @", "name: @a\n"},
      {"a value that begins with a backquote", "name: `a`\n"},
      {"a value that begins with %", "name: %a\n"},
      {"a Windows path in double quotes", "data: {train: {npz: {path: \"C:\\data\\x.npz\"}}}\n"},
      {"a bad hexadecimal escape", "name: \"a\\xzz\"\n"},
      {"a directive", "%YAML 3.0\n---\nname: a\n"},
      {"a block text", "name: |\n  a\n  b\n"},
      {"a block text with words behind its mark", "name: | a\n  b\n"},
      // Values.
      {"texts that look like something else",
       "name: no\nqueue: 012\nlabels: {a: 1e3, b: 0x1, c: \"~\", d: 2026-01-31, e: 1:20}\n"},
      {"texts that mean no value", "name: ~\nqueue: null\nlabels: {a: }\n"},
      {"a quoted number for a number", "data: {batch_size: \"4\"}\n"},
      {"numbers of YAML 1.1", "data: {batch_size: 0x10}\ntrain: {steps: 1_000, seed: 010}\n"},
      {"numbers with separators and units", "data: {batch_size: \"1,000\"}\ntrain: {steps: 10k}\n"},
      {"a fraction for a whole number", "train: {steps: 2.5}\n"},
      {"whole numbers that a double would change",
       "train: {seed: 9007199254740993.0, steps: 0.99999999999999999999}\nresources: {memory_bytes: 1e-400}\n"},
      {"numbers with spaces", "model: {lenet: {widths: [32 64]}}\ntrain: {steps: 0 2000, seed: 10 000}\n"},
      {"a list without brackets", "model:\n  lenet:\n    widths: 8 16\n"},
      {"a number with a comma", "optimizer:\n  sgd:\n    learning_rate: 1,500\n"},
      {"a number for a mapping", "precision: {loss_scale: 1024}\ntrain: 5\n"},
      {"the name of a field for a mapping", "train: steps\n"},
      {"a choice in a field like name", "optimizer: {name: adamw, lr: 0.1}\n"},
      {"a negative number for a count", "train: {seed: -1}\n"},
      {"numbers that are too large", "train: {steps: 1e30, seed: 1e18}\nmax_retries: 3000000000\n"},
      {"numbers that are not finite", "optimizer: {sgd: {learning_rate: .nan}}\n"},
      {"a percentage", "optimizer: {sgd: {momentum: 90%}}\n"},
      {"a decimal comma", "optimizer: {sgd: {learning_rate: \"0,1\"}}\n"},
      {"yes for true", "train: {replay_skipped: yes}\n"},
      {"True for true", "train: {replay_skipped: True}\n"},
      {"an enum value in lower case", "resources: {kind: cpu}\n"},
      {"an enum value by its number", "resources: {kind: 1}\n"},
      {"durations", "deadline: 1d12h\n"},
      {"a duration without a unit", "deadline: 90\n"},
      {"a duration in words", "deadline: 2 hours\n"},
      {"a negative duration", "deadline: -5s\n"},
      {"sizes", "resources: {memory_bytes: 4GiB}\n"},
      {"a size with a space", "resources: {memory_bytes: 1.5 GB}\n"},
      {"a size in the style of Kubernetes", "resources: {memory_bytes: 4Gi}\n"},
      {"a size in words", "resources: {memory_bytes: four}\n"},
      {"a mapping for a number", "data: {batch_size: {a: 1}}\n"},
      {"a word for a list", "model: {lenet: {widths: 8}}\n"},
      {"a key without a value", "data: {batch_size: }\n"},
      {"a word in capitals for a section", "precision: BF16\nmodel: LeNet\n"},
      {"a preset with a dash", "precision: bf-16\n"},
      {"PyTorch's names of formats", "precision: {preset: fp16, compute: float16, master: bfloat16}\n"},
      {"nothing for a section", "precision: ''\n"},
      {"a whole number just above its type", "train: {steps: 9223372036854775808, seed: 18446744073709551616}\n"},
      {"whole numbers far above their limits", "train: {num_threads: 4294967296, steps: -99999999999999999999}\n"},
      {"a number that is too close to 0", "optimizer: {sgd: {learning_rate: 1e-400, weight_decay: 0.0e-400}}\n"},
      {"a duration that is too long", "deadline: 99999999d\n"},
      {"sizes that are too large", "resources: {memory_bytes: 99999PiB}\ntrain: {memory_budget_bytes: 1e19}\n"},
      {"zeros that the server would take for unset fields",
       "model: {mlp: {num_classes: 0, hidden: []}}\ndata: {eval_batch_size: 0, train: {npz: {images: ''}}}\n"
       "train: {gradient_accumulation: 0}\ncheckpoint: {keep: 0}\nresources: {devices: 0}\nprecision: {preset: ''}\n"
       "sample: {text: {prompt: ''}}\n"},
      {"zeros that mean something",
       "model: {gpt2: {dropout: 0}}\ntrain: {num_threads: 0, seed: 0}\neval: {every_steps: 0}\n"
       "checkpoint: {every_steps: 0}\nmax_retries: 0\nresources: {memory_bytes: 0, worker: ''}\n"
       "sample: {text: {temperature: 0, top_k: 0}}\n"},
      {"no value for a choice", "on_divergence: \n"},
      {"an empty text for a choice", "on_divergence: ''\n"},
      {"a list for a choice", "on_divergence: [FAIL]\n"},
      {"no value for a list", "model: {lenet: {widths: }}\n"},
      // Keys.
      {"names of other programs", "optimizer: {adamw: {lr: 1, wd: 2}}\nbs: 4\n"},
      {"names of another program's arguments",
       "batch: 4\ndevice: cuda\nfp16: true\nsave_steps: 5\ntags: [a]\nshuffle: true\ntrain: {drop_last: true}\n"},
      {"a name of another program at the top", "optimizer: {adamw: {learning_rate: 1}}\nlr: 1\n"},
      {"a field of the file's own optimizer", "optimizer: {adamw: {beta1: 0.5}}\nlearning_rate: 1\n"},
      {"a path as a key", "train.steps: 4\n"},
      {"a duplicate key", "name: a\nname: b\n"},
      {"one field in both spellings", "data: {batch_size: 3, batchSize: 4}\n"},
      {"two alternatives of one choice", "train: {steps: 3, epochs: 4}\n"},
      {"a misspelt key", "precison: {preset: bf16}\n"},
      {"a key of another place", "learning_rate: 1\n"},
      {"a key in the wrong case", "Name: a\n"},
      {"a key with a dash", "data: {batch-size: 4}\n"},
      {"a list as a key", "[a]: b\n"},
      {"an empty key", "\"\": b\n"},
      {"a hostile key", "\"a\\e[2J\\u202eb\": 1\n"},
      {"a very long key", long_word + ": 1\n"},
      {"a very long value", "resources: {kind: " + long_word + "}\n"},
      {"a very deep value", Nested(40)},
      {"a very long list",
       "model: {lenet: {widths: [" + absl::StrReplaceAll(std::string(20'001, '1'), {{"1", "1,"}}) + "]}}\n"},
      {"a very long file", std::string((1 << 20) + 1, '#')},
  };
}

TEST(WrittenTexts, JobFilesAreReadOrExplained) {
  std::string all;
  for (const auto& [name, text] : Files()) {
    SCOPED_TRACE(name);
    const std::string answer = Answer(text, {});
    EXPECT_EQ(PrintableLines(answer), answer) << "nothing in it may control a terminal";
    EXPECT_LT(answer.size(), 4096u);
    absl::StrAppend(&all, "# ", name, "\n", answer);
  }
  ExpectGolden("tests/golden/client/written_job_files.txt", all);
}

std::vector<std::string> Overrides() {
  return {"name=b",
          "name = b",
          "name=",
          "name",
          "=b",
          "",
          "name=no",
          "name=1:20",
          "name=\"quoted\"",
          "name=a=b",
          "name=\xE9",
          "na\xE9me=b",
          "name=a\x1b[31mb",
          "Name=b",
          "nam=b",
          "epochs=3",
          "train.epochs=3",
          "train.epochs=three",
          "train.epochs=2.5",
          "train.epochs=1e2",
          "train.epochs=-1",
          "train.epochs=",
          "train.epoch=3",
          "train.steps=10k",
          "train.steps='10'",
          "train.steps=\"many\"",
          "train=3",
          "train.steps.x=3",
          "train..steps=3",
          "train.steps:3",
          "train-steps=3",
          "Train.Steps=3",
          "lr=3",
          "learning_rate=3",
          "train.gradient_accumulation=0",
          "precision.preset=",
          ".train=3",
          "train.=3",
          "train/steps=3",
          "train:steps=3",
          "trainSteps=3",
          "data.batchSize=8",
          "data.batch_size=0x10",
          "data.batch_size=99999999999",
          "data.last_batch=pad",
          "data.last_batch=1",
          "train.replay_skipped=yes",
          "train.replay_skipped=True",
          "train.replay_skipped=true",
          "deadline=1d",
          "deadline=90",
          "deadline=1 day",
          "deadline=never",
          "resources.memory_bytes=4GiB",
          "resources.memory_bytes=4G",
          "resources.memory_bytes=1e9",
          "resources.memory_bytes=-1GiB",
          "optimizer.adamw.learning_rate=1e-3",
          "optimizer.adamw.learning_rate=nan",
          "optimizer.adamw.learning_rate=0,1",
          "model.lenet.widths=[8, 16]",
          "model.lenet.widths=8",
          "model.lenet.widths=[8, x]",
          "model.lenet.widths=[8",
          "model.lenet.widths[0]=8",
          "model.lenet.widths[1]=8",
          "model.lenet.widths[-1]=8",
          "model.lenet.widths[x]=8",
          "model.lenet.widths[]=8",
          "model.lenet.widths[=8",
          "model.lenet.widths[0][0]=8",
          "model.lenet.widths[99999999999999999999]=8",
          "[0]=8",
          "model.lenet.widths.0=8",
          "precision.module_rules.0.match=head",
          "model.lenet.widths=8,16",
          "model.lenet={}",
          "model=lenet",
          "labels.team=a",
          "labels.team=\"a\"",
          "labels.team=[a",
          "labels[team]=a",
          "train[steps]=3",
          "train['steps']=3",
          "data[train][idx][images]=a/b",
          "model.lenet.widths[2]=8",
          "model.lenet.widths[3]=8",
          "model.lenet.widths=8 16",
          "model.lenet.widths=[8 16]",
          "train.clip_grad_norm=null",
          "train.steps=~",
          "model.lenet.widths=null",
          "labels=null",
          "train={steps:3}",
          "train=steps",
          "train=steps=3",
          "tr\u0430in.steps=3",
          "train\uff0esteps=3",
          "train.steps\uff1d3",
          "train.steps=\uff13",
          "train.steps=3\u200b",
          "optimizer.name=adamw",
          "fp16=true",
          "labels={team: a}",
          "labels=[a]",
          "precision=bf16",
          "precision.preset=bf16",
          "precision.module_rules[0].match=*head",
          "precision.module_rules[3].match=head",
          "precision.module_rules[0]=head",
          "a.b.c.d.e.f.g.h.i.j.k.l.m.n.o.p.q=1",
          "--name=b"};
}

TEST(WrittenTexts, OverridesAreReadOrExplained) {
  std::string all;
  for (const std::string& override : Overrides()) {
    SCOPED_TRACE(Printable(override));
    const std::string answer = Answer("name: a\n", {override});
    EXPECT_EQ(PrintableLines(answer), answer) << "nothing in it may control a terminal";
    absl::StrAppend(&all, "# --set '", Printable(override), "'\n", answer);
  }
  EXPECT_THAT(all, Not(HasSubstr("yaml-cpp")));
  ExpectGolden("tests/golden/client/written_overrides.txt", all);
}

}  // namespace
}  // namespace ampd::client
