// Runs a fuzz target on its corpus and on mutations of the corpus, for builds without libFuzzer. The mutations are the
// same in every run.
#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <csignal>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>
#include <vector>

#include "absl/strings/str_format.h"
#include "absl/strings/str_split.h"
#include "tests/count_from_environment.h"
#include "tests/fuzz/target.h"

namespace ampd::fuzz {
namespace {

constexpr int64_t kMutationsOfAFile = 2000;

using Random = std::mt19937_64;

std::string Read(const std::filesystem::path& path) {
  std::ifstream file(path, std::ios::binary);
  return {std::istreambuf_iterator<char>(file), {}};
}

// Returns the files of the corpora named in AMPD_FUZZ_CORPUS, sorted by name.
std::vector<std::filesystem::path> Corpus() {
  std::vector<std::filesystem::path> files;
  for (const std::string& name : std::vector<std::string>(absl::StrSplit(AMPD_FUZZ_CORPUS, ' '))) {
    for (const auto& entry : std::filesystem::directory_iterator(AMPD_SOURCE_DIR "/tests/fuzz/corpus/" + name)) {
      files.push_back(entry.path());
    }
  }
  std::sort(files.begin(), files.end());
  return files;
}

// Names the input that the target is reading. The text is printed if a check of the target fails or if the process
// crashes.
char feeding[512];

void PrintInput() { [[maybe_unused]] const ssize_t size = write(STDERR_FILENO, feeding, std::strlen(feeding)); }

extern "C" void OnEnd(int signal) {
  PrintInput();
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

// A sanitizer ends a process without a signal, so a signal handler is not enough. The sanitizer first calls the
// function that is registered here: PrintInput.
// NOLINTNEXTLINE(bugprone-reserved-identifier): the sanitizers' runtime defines this name.
extern "C" __attribute__((weak)) void __sanitizer_set_death_callback(void (*callback)());

class Replay : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    std::signal(SIGABRT, OnEnd);
    if (__sanitizer_set_death_callback != nullptr) {
      __sanitizer_set_death_callback(PrintInput);
      return;
    }
    for (const int signal : {SIGSEGV, SIGBUS, SIGFPE, SIGILL}) {
      std::signal(signal, OnEnd);
    }
  }
};

// Runs the target on the input. `what` names the input in messages, so that people can find it again.
void Feed(const std::string& input, const std::string& what) {
  absl::SNPrintF(feeding, sizeof(feeding), "while the reader had %s\n", what);
  LLVMFuzzerTestOneInput(reinterpret_cast<const uint8_t*>(input.data()), input.size());
}

// Returns a short name such as "npz/sound_savez.bin".
std::string NameOf(const std::filesystem::path& path) {
  return (path.parent_path().filename() / path.filename()).string();
}

size_t Below(Random& random, size_t bound) { return random() % std::max<size_t>(bound, 1); }

// Draws a position in the input. Half of the draws are in its first 128 bytes, where headers are.
size_t Place(Random& random, const std::string& input) {
  return Below(random, random() % 2 == 0 ? std::min<size_t>(input.size(), 128) : input.size());
}

void Mutate(Random& random, std::string& input) {
  constexpr uint8_t kTelling[] = {0x00, 0x01, 0x7f, 0x80, 0xff, '(', '\'', '9'};
  const size_t at = Place(random, input);
  switch (random() % 5) {
    case 0:
      input.resize(at);
      return;
    case 1:
      input.insert(at, input.substr(Place(random, input), Below(random, 32)));
      return;
    case 2:
      input.erase(at, Below(random, 16));
      return;
    case 3:
      for (size_t i = at; i < input.size() && i < at + 4; ++i) {
        input[i] = static_cast<char>(kTelling[random() % std::size(kTelling)]);
      }
      return;
    default:
      if (at < input.size()) {
        input[at] = static_cast<char>(input[at] ^ (1 << (random() % 8)));
      }
  }
}

TEST_F(Replay, SoundFilesAreTakenAndHostileOnesRefused) {
  int num_sound = 0;
  for (const std::filesystem::path& path : Corpus()) {
    const Verdicts before = Seen();
    Feed(Read(path), NameOf(path));
    const bool sound = path.filename().string().rfind("sound", 0) == 0;
    EXPECT_EQ(Seen().num_taken - before.num_taken, sound ? 1 : 0) << path;
    EXPECT_EQ(Seen().num_refused - before.num_refused, sound ? 0 : 1) << path;
    num_sound += sound ? 1 : 0;
  }
  EXPECT_GT(num_sound, 0);
}

// Each file's mutations have their own random numbers. So mutation i of a file does not depend on other files or on the
// number of mutations.
TEST_F(Replay, MutationsEndInContentOrInAnError) {
  const int64_t seed = CountFromEnvironment("AMPD_SEED", 1);
  const int64_t num_mutations = CountFromEnvironment("AMPD_FUZZ_MUTATIONS", kMutationsOfAFile);
  RecordProperty("seed", std::to_string(seed));
  const Verdicts before = Seen();
  for (const std::filesystem::path& path : Corpus()) {
    SCOPED_TRACE(path);
    const std::string whole = Read(path);
    const std::string name = NameOf(path);
    std::seed_seq seeds(name.begin(), name.end());
    std::array<uint32_t, 1> of_file = {};
    seeds.generate(of_file.begin(), of_file.end());
    Random random(static_cast<uint64_t>(seed) + of_file[0]);
    for (int64_t i = 0; i < num_mutations; ++i) {
      std::string input = whole;
      for (uint64_t left = 1 + random() % 3; left > 0; --left) {
        Mutate(random, input);
      }
      Feed(input, absl::StrFormat("mutation %d of %s, repeat with AMPD_SEED=%d", i, name, seed));
    }
  }
  // The target must have accepted some inputs and rejected others; otherwise the test shows nothing.
  EXPECT_GT(Seen().num_taken, before.num_taken);
  EXPECT_GT(Seen().num_refused, before.num_refused);
}

}  // namespace
}  // namespace ampd::fuzz
