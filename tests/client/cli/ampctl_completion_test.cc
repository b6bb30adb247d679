#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <unistd.h>

#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/time/clock.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::Contains;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using ::testing::IsSupersetOf;
using ::testing::Not;
using ::testing::UnorderedElementsAre;

// A server that accepts connections and never answers.
class SilentServer {
 public:
  SilentServer() : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    address_.sin_family = AF_INET;
    address_.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address_);
    bound_ = bind(socket_, reinterpret_cast<sockaddr*>(&address_), size) == 0 && listen(socket_, 8) == 0 &&
             getsockname(socket_, reinterpret_cast<sockaddr*>(&address_), &size) == 0;
  }
  ~SilentServer() { close(socket_); }
  bool bound() const { return bound_; }
  std::string address() const { return absl::StrCat("127.0.0.1:", ntohs(address_.sin_port)); }

 private:
  const int socket_;
  sockaddr_in address_ = {};
  bool bound_ = false;
};

class AmpctlCompletion : public Ampctl {
 protected:
  AmpctlCompletion() { Write("script", Run("completion bash").out); }

  // Returns the words that bash completion offers for the last of `words`. '=' and ':' must be separate words, because
  // bash splits there, too.
  std::vector<std::string> Offers(const std::vector<std::string>& words, const std::string& environment = "") {
    std::string quoted;
    for (const std::string& word : words) {
      absl::StrAppend(&quoted, " '", word, "'");
    }
    Write("try.bash", absl::StrCat("source \"$1\"\nCOMP_WORDS=('" AMPD_BIN_DIR "/ampctl'", quoted, ")\nCOMP_CWORD=",
                                   words.size(), "\n_ampctl ampctl\nprintf '%s\\n' \"${COMPREPLY[@]}\"\n"));
    const std::string address = environment.empty() ? "AMPD_ADDRESS=" + fake_.address() : environment;
    const std::string command =
        absl::StrCat("cd ", folder_, " && env -u AMPD_ADDRESS ", address, " XDG_CONFIG_HOME=", folder_,
                     "/config bash -u try.bash ./script "
                     ">offers 2>complaints");
    EXPECT_EQ(std::system(command.c_str()), 0);
    EXPECT_EQ(*ReadFile(folder_ + "/complaints", 1 << 20), "");
    return absl::StrSplit(*ReadFile(folder_ + "/offers", 1 << 20), '\n', absl::SkipEmpty());
  }
};

bool IsInstalled(const std::string& shell) {
  return std::system(absl::StrCat("command -v ", shell, " >/dev/null 2>&1").c_str()) == 0;
}

// Completion in zsh and fish, if they are installed. `line` is a command line without "ampctl ", with the cursor at its
// end.
class AmpctlCompletionInOtherShells : public AmpctlCompletion {
 protected:
  // Runs the completion function of the script for zsh. Functions that print completions take the place of zsh's
  // builtins that add them.
  std::vector<std::string> ZshOffers(const std::string& line) {
    const std::vector<std::string> words = absl::StrSplit("ampctl " + line, ' ');
    Write("script", Run("completion zsh").out);
    Write("try.zsh", absl::StrCat("compdef() { [[ \"$*\" == '_ampctl ampctl' ]] }\n"
                                  "compadd() { while [[ $1 != -- ]]; do shift; done; shift; print -rl -- \"$@\" }\n"
                                  "compset() { PREFIX=${PREFIX#--*=} }\n"
                                  "_files() { print -rl -- ${PREFIX}*(N) }\n"
                                  "source ./script || exit 9\n"
                                  "words=(",
                                  absl::StrJoin(words, " "), " '')\nCURRENT=", words.size(), "\nPREFIX='", words.back(),
                                  "'\n_ampctl; exit 0\n"));
    return OffersOf("zsh -f try.zsh");
  }
  // Lets fish complete the line.
  std::vector<std::string> FishOffers(const std::string& line) {
    Write("script", Run("completion fish").out);
    Write("try.fish", absl::StrCat("source ./script\ncomplete --do-complete 'ampctl ", line, "'\n"));
    return OffersOf("fish --no-config try.fish");
  }

 private:
  std::vector<std::string> OffersOf(const std::string& command) {
    const std::string in_folder = absl::StrCat("cd ", folder_, " && env PATH=" AMPD_BIN_DIR ":\"$PATH\" HOME=", folder_,
                                               " AMPD_ADDRESS=", fake_.address(), " XDG_CONFIG_HOME=", folder_,
                                               "/config ", command, " >offers 2>complaints");
    EXPECT_EQ(std::system(in_folder.c_str()), 0);
    EXPECT_EQ(*ReadFile(folder_ + "/complaints", 1 << 20), "");
    return absl::StrSplit(*ReadFile(folder_ + "/offers", 1 << 20), '\n', absl::SkipEmpty());
  }
};

TEST_F(AmpctlCompletionInOtherShells, Zsh) {
  if (!IsInstalled("zsh")) {
    GTEST_SKIP() << "zsh is not installed, so the script for it was not run";
  }
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  Write("job.yaml", "");
  EXPECT_THAT(ZshOffers("job sub"), ElementsAre("submit"));
  EXPECT_THAT(ZshOffers("job show "), ElementsAre(id, "n"));
  EXPECT_THAT(ZshOffers("job submit --set train.s"), ElementsAre("train.steps=", "train.seed="));
  EXPECT_THAT(ZshOffers("--color=a"), ElementsAre("--color=auto", "--color=always"));
  EXPECT_THAT(ZshOffers("job submit -f job"), ElementsAre("job.yaml"));
  EXPECT_THAT(ZshOffers("job submit --file=job"), ElementsAre("job.yaml"));
  EXPECT_THAT(ZshOffers("nojob "), IsEmpty());
}

TEST_F(AmpctlCompletionInOtherShells, Fish) {
  if (!IsInstalled("fish")) {
    GTEST_SKIP() << "fish is not installed, so the script for it was not run";
  }
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  Write("job.yaml", "");
  EXPECT_THAT(FishOffers("job sub"), ElementsAre("submit"));
  EXPECT_THAT(FishOffers("job show "), UnorderedElementsAre(id, "n"));
  EXPECT_THAT(FishOffers("job submit --set train.s"), UnorderedElementsAre("train.steps=", "train.seed="));
  EXPECT_THAT(FishOffers("--color=a"), UnorderedElementsAre("--color=auto", "--color=always"));
  EXPECT_THAT(FishOffers("job submit -f job"), ElementsAre("job.yaml"));
  EXPECT_THAT(FishOffers("job submit --file=job"), ElementsAre("--file=job.yaml"));
  EXPECT_THAT(FishOffers("nojob "), IsEmpty());
}

TEST_F(AmpctlCompletion, EachShellHasItsOwnScript) {
  EXPECT_THAT(Run("completion bash").out, HasSubstr("\ncomplete -F _ampctl ampctl\n"));
  EXPECT_THAT(Run("completion zsh").out, testing::StartsWith("#compdef ampctl\n")) << "so that fpath takes it";
  EXPECT_THAT(Run("completion zsh").out, HasSubstr("compdef _ampctl ampctl"));
  EXPECT_THAT(Run("completion fish").out, HasSubstr("\ncomplete --command ampctl "));
  for (const char* shell : {"bash", "zsh", "fish"}) {
    EXPECT_THAT(Run(absl::StrCat("completion ", shell)).out, HasSubstr(" __complete ")) << shell;
  }
  EXPECT_THAT(Offers({"completion", ""}), ElementsAre("bash", "zsh", "fish"));
}

TEST_F(AmpctlCompletion, CommandsAfterHelp) {
  EXPECT_THAT(Offers({"help", "j"}), ElementsAre("job", "job-file"));
  EXPECT_THAT(Offers({"help", "job", "sub"}), ElementsAre("submit"));
  EXPECT_THAT(Offers({"help", "exit"}), ElementsAre("exit-codes"));
  EXPECT_THAT(Offers({"help", "nojob", ""}), IsEmpty());
  EXPECT_THAT(Offers({"help", "job", "submit", ""}), IsEmpty());
}

TEST_F(AmpctlCompletion, CommandsAndOptionsByTheirBeginning) {
  EXPECT_THAT(Offers({""}), IsSupersetOf({"job", "worker", "context", "dev"}));
  EXPECT_THAT(Offers({""}), Not(Contains("__complete")));
  EXPECT_THAT(Offers({"job", "sub"}), ElementsAre("submit"));
  EXPECT_THAT(Offers({"--address", "127.0.0.1", ":", "1", "-o", "json", "job", "sub"}), ElementsAre("submit"));
  EXPECT_THAT(Offers({"job", "submit", "--fo"}), ElementsAre("--follow"));
  EXPECT_THAT(Offers({"job", "submit", "--addr"}), ElementsAre("--address"));
  EXPECT_THAT(Offers({"nojob", ""}), IsEmpty());
}

TEST_F(AmpctlCompletion, JobIdsWhereAJobIsWanted) {
  const std::string first = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const std::string second = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  for (const char* verb : {"show", "watch", "logs", "wait", "cancel", "pause", "resume", "explain", "retry", "clone",
                           "delete", "points", "events"}) {
    EXPECT_THAT(Offers({"job", verb, ""}), ElementsAre(first, second)) << verb;
  }
  EXPECT_THAT(Offers({"job", "show", first.substr(0, first.size())}), ElementsAre(first));
  EXPECT_THAT(Offers({"job", "show", first, ""}), IsEmpty());
  EXPECT_THAT(Offers({"job", "wait", first, ""}), ElementsAre(first, second));
  EXPECT_THAT(Offers({"job", "logs", "--attempt", "1", ""}), ElementsAre(first, second));
  EXPECT_THAT(Offers({"job", "logs", "--attempt", ""}), IsEmpty());
  EXPECT_THAT(Offers({"checkpoint", "list", ""}), ElementsAre(first, second));
  EXPECT_THAT(Offers({"checkpoint", "delete", ""}), ElementsAre(first, second));
  EXPECT_THAT(Offers({"checkpoint", "show", ""}), IsSupersetOf({first, second, std::string("script")}));
  EXPECT_THAT(Offers({"checkpoint", "show", "j-"}), ElementsAre(first, second));
  EXPECT_THAT(Offers({"checkpoint", "verify", "scr"}), ElementsAre("script"));
}

TEST_F(AmpctlCompletion, TheServerIsTheOneOnTheLine) {
  const std::string id = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const std::string nowhere = "AMPD_ADDRESS=127.0.0.1:1";
  EXPECT_THAT(Offers({"job", "show", ""}, nowhere), IsEmpty());
  const std::string port = absl::StrCat(fake_.port);
  EXPECT_THAT(Offers({"--address", "127.0.0.1", ":", port, "job", "show", ""}, nowhere), ElementsAre(id, "n"));
  EXPECT_THAT(Offers({"--address", "=", "127.0.0.1", ":", port, "job", "show", ""}, nowhere), ElementsAre(id, "n"));
}

TEST_F(AmpctlCompletion, Artifacts) {
  const std::string job = fake_.jobs.Add("n", v1::Job::RUNNING).id();
  const std::string name = fake_.artifacts.Add("content");
  EXPECT_THAT(Offers({"artifact", "download", ""}), ElementsAre(name));
  EXPECT_THAT(Offers({"artifact", "delete", name.substr(0, 4)}), ElementsAre(name));
  EXPECT_THAT(Offers({"artifact", "download", name, "scr"}), ElementsAre("script"));
  EXPECT_THAT(Offers({"artifact", "upload", "scr"}), ElementsAre("script"));
  EXPECT_THAT(Offers({"artifact", "list", "--job", ""}), ElementsAre(job, "n"));
  EXPECT_THAT(Offers({"artifact", "list", ""}), IsEmpty());
}

TEST_F(AmpctlCompletion, WorkersAndContexts) {
  EXPECT_EQ(Run("context add lab 127.0.0.1:1").exit_code, 0);
  EXPECT_THAT(Offers({"worker", "drain", ""}), ElementsAre("w1"));
  EXPECT_THAT(Offers({"worker", "undrain", "w"}), ElementsAre("w1"));
  EXPECT_THAT(Offers({"worker", "remove", ""}), ElementsAre("w1"));
  EXPECT_THAT(Offers({"context", "use", ""}), ElementsAre("lab"));
  EXPECT_THAT(Offers({"--address", "l"}), ElementsAre("lab"));
}

TEST_F(AmpctlCompletion, NamesThatCouldControlTheTerminalAreLeftOut) {
  fake_.artifacts.Add("content");
  fake_.hostile_text.Set("\x1b[2J");
  EXPECT_THAT(Offers({"artifact", "download", ""}), IsEmpty());
  EXPECT_THAT(Offers({"worker", "drain", ""}), IsEmpty());
  fake_.hostile_text.Set("\u202e");
  EXPECT_THAT(Offers({"worker", "drain", ""}), IsEmpty());
}

TEST_F(AmpctlCompletion, ValuesOfOptions) {
  EXPECT_THAT(Offers({"job", "watch", "-o", ""}), ElementsAre("table", "json", "jsonl", "yaml"));
  EXPECT_THAT(Offers({"job", "list", "--output", "=", "js"}), ElementsAre("json", "jsonl"));
  EXPECT_THAT(Offers({"--color", "a"}), ElementsAre("auto", "always"));
  EXPECT_THAT(Offers({"data", "tokenize", "--quotes", ""}), ElementsAre("csv", "none"));
  EXPECT_THAT(Offers({"policy", "show", "--model", "le"}), ElementsAre("lenet"));
  EXPECT_THAT(Offers({"model", "inspect", "--head", "=", "G"}), ElementsAre("GAN"));
  Write("my job.yaml", "name: x\n");
  EXPECT_THAT(Offers({"job", "submit", "-f", "my"}), ElementsAre("my job.yaml"));
  EXPECT_THAT(Offers({"data", "inspect", "my"}), ElementsAre("my job.yaml"));
}

TEST_F(AmpctlCompletion, OnlyWhatTheCommandTakes) {
  EXPECT_THAT(Offers({"job", "show", "--device", "=", ""}), IsEmpty());
  EXPECT_THAT(Offers({"artifact", "upload", "script", "scr"}), IsEmpty());
  EXPECT_THAT(Offers({"data", "tokenize", "script", "scr"}), ElementsAre("script"));
}

TEST_F(AmpctlCompletion, PresetsAndFilesOfModels) {
  EXPECT_THAT(Offers({"model", "inspect", "--preset", "fp8-b"}), ElementsAre("fp8-block"));
  EXPECT_THAT(Offers({"model", "inspect", "--device", ""}), ElementsAre("gpu", "cpu"));
  EXPECT_THAT(Offers({"policy", "show", "apex-o1"}), ElementsAre("apex-o1"));
  Write("net.pt2", "");
  EXPECT_THAT(Offers({"model", "inspect", "net"}), ElementsAre("net.pt2"));
  EXPECT_THAT(Offers({"model", "inspect", "net.pt2", "--batch", "4", ""}), Not(Contains("net.pt2")));
}

TEST_F(AmpctlCompletion, PathsOfTheSpecBehindSet) {
  EXPECT_THAT(Offers({"job", "submit", "--set", "tr"}), ElementsAre("train."));
  EXPECT_THAT(Offers({"job", "submit", "--set", "train.s"}), ElementsAre("train.steps=", "train.seed="));
  EXPECT_THAT(Offers({"job", "submit", "--set", "data.train.idx.l"}),
              ElementsAre("data.train.idx.labels=", "data.train.idx.limit="));
  EXPECT_THAT(Offers({"job", "submit", "--set", "dead"}), ElementsAre("deadline="));
  EXPECT_THAT(Offers({"job", "submit", "--set", "optimizer.g"}), ElementsAre("optimizer.groups[0]."));
  EXPECT_THAT(Offers({"job", "submit", "--set", "optimizer.groups[1].m"}), ElementsAre("optimizer.groups[1].match="));
  EXPECT_THAT(Offers({"job", "submit", "--set", "no.such."}), IsEmpty());
  EXPECT_THAT(Offers({"job", "submit", "--set", "=", "train.ste"}), ElementsAre("train.steps="));
}

TEST_F(AmpctlCompletion, ValuesBehindAPathAreOfferedAsBashPartsTheWord) {
  EXPECT_THAT(Offers({"job", "submit", "--set", "data.keep_order", "="}), ElementsAre("true", "false"));
  EXPECT_THAT(Offers({"job", "submit", "--set", "resources.kind", "=", "G"}), ElementsAre("GPU"));
  EXPECT_THAT(Offers({"job", "submit", "--set", "train.steps", "="}), IsEmpty());
}

TEST_F(AmpctlCompletion, ASilentServer_IsGivenUpSoonAndSilently) {
  const SilentServer silent;
  ASSERT_TRUE(silent.bound());
  const absl::Time start = absl::Now();
  EXPECT_THAT(Offers({"job", "show", ""}, "AMPD_ADDRESS=" + silent.address()), IsEmpty());
  const absl::Duration took = absl::Now() - start;
  EXPECT_GE(took, absl::Milliseconds(400)) << "the server was not waited for";
  EXPECT_LT(took, absl::Seconds(5)) << "the deadline of a call is 10 s";
}

}  // namespace
}  // namespace ampd::client
