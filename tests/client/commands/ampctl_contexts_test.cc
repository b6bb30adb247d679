// Tests errors in the file of contexts and in the environment. Every error must be one line that names the file and
// says what to do.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <string>

#include "absl/strings/str_cat.h"
#include "tests/client/ampctl_fixture.h"

namespace ampd::client {
namespace {

using ::testing::HasSubstr;
using ::testing::StartsWith;

constexpr char kNoHome[] = "env -u HOME -u XDG_CONFIG_HOME";

class AmpctlContexts : public Ampctl {
 protected:
  AmpctlContexts() : file_(folder_ + "/config/ampd/contexts") {
    std::filesystem::create_directories(folder_ + "/config/ampd");
  }
  void WriteFile(const std::string& text) { Write("config/ampd/contexts", text); }

  // Checks that commands fail with this error if they need the file of contexts, and that commands with an address do
  // not need the file.
  void ExpectBadFile(const std::string& error) {
    for (const char* command : {"context list", "context add lab h:1", "job list", "job list --address lab"}) {
      const Result result = Run(command, "AMPD_NONE=1");
      EXPECT_EQ(result.exit_code, 2) << command;
      EXPECT_EQ(result.err, error) << command;
    }
    EXPECT_EQ(Run("job list --address " + fake_.address(), "AMPD_NONE=1").exit_code, 0);
    EXPECT_EQ(Run("job list").exit_code, 0) << "AMPD_ADDRESS is an address too";
  }

  const std::string file_;
};

TEST_F(AmpctlContexts, ALineOfAnotherForm_IsNamedWithItsNumber) {
  WriteFile("current lab\n\nlab 127.0.0.1:1\nlab: {address: x}\n");
  ExpectBadFile(absl::StrCat("error: ", file_,
                             ":4: 'lab: {address: x}' is neither 'NAME ADDRESS', nor 'NAME ADDRESS tenant=TENANT "
                             "ca=PATH', nor 'current NAME'; "
                             "correct the file or delete it  [BAD_CONTEXT_FILE]\n"));
  WriteFile("server: 127.0.0.1:7070\n");
  ExpectBadFile(
      absl::StrCat("error: ", file_,
                   ":1: 'server: 127.0.0.1:7070' is neither 'NAME ADDRESS', nor 'NAME ADDRESS tenant=TENANT ca=PATH', "
                   "nor 'current NAME'; correct the file or delete it  [BAD_CONTEXT_FILE]\n"));
}

TEST_F(AmpctlContexts, AnAddressInTheFileThatIsNone_IsNamedWithWhatIsWrong) {
  WriteFile("current lab\nlab ::1:7070\n");
  ExpectBadFile(absl::StrCat("error: ", file_,
                             ":2: the address '::1:7070' of 'lab' has an IPv6 address without brackets; write "
                             "[::1]:7070; correct the file or delete it  [BAD_CONTEXT_FILE]\n"));
}

TEST_F(AmpctlContexts, AnAddressThatIsNone_IsRefusedWithWhatToWrite) {
  const struct {
    const char* address;
    const char* why;
  } cases[] = {
      {"::1:7070", "has an IPv6 address without brackets; write [::1]:7070"},
      {"::1", "has an IPv6 address without brackets; write [::1]:7070"},
      {"2001:db8::5", "has an IPv6 address without brackets; write [2001:db8::5]:7070"},
      {"fe80::1:443", "has an IPv6 address without brackets; write [fe80::1]:443"},
      {"[::1]", "has no port; write HOST:PORT, such as [::1]:7070"},
      {"[::1]:", "has no port; write HOST:PORT, such as [::1]:7070"},
      {"[::1:7070", "has no ']' after the IPv6 address; write [::1]:7070"},
      {"[::1", "has no ']' after the IPv6 address; write [::1]:7070"},
      {"[lab]:7070", "has 'lab' in brackets, which is no IPv6 address; write [ADDRESS]:PORT, such as [::1]:7070"},
      {"[::1]7070", "has '7070' after the brackets; write [ADDRESS]:PORT, such as [::1]:7070"},
      {"[::1]:0", "has the port '0'; a port is a number from 1 to 65535"},
      {"lab:7070:8080", "has more than one ':' or a bracket; write HOST:PORT, or [ADDRESS]:PORT for an IPv6 address"},
      {"lab]:7070", "has more than one ':' or a bracket; write HOST:PORT, or [ADDRESS]:PORT for an IPv6 address"},
      {"lab:http", "has the port 'http'; a port is a number from 1 to 65535"},
      {":7070", "has no host before the port; write HOST:PORT"},
      {"unix://tmp/ampd.sock", "has two slashes after unix:, as a URL has; write unix:/tmp/ampd.sock"},
      {"unix:ampd.sock", "must have the absolute path of a socket, without blanks, after unix:"},
  };
  for (const auto& [address, why] : cases) {
    const Result used = Run(absl::StrCat("job list --address '", address, "'"));
    EXPECT_EQ(used.exit_code, 2) << address;
    EXPECT_EQ(used.err, absl::StrCat("error: the address '", address, "' from --address ", why, "\n"));
    const Result named = Run(absl::StrCat("context add lab '", address, "'"));
    EXPECT_EQ(named.exit_code, 2) << address;
    EXPECT_EQ(named.err, absl::StrCat("error: cannot add context 'lab': the address '", address, "' ", why, "\n"));
  }
  EXPECT_FALSE(std::filesystem::exists(file_));
  for (const char* address : {"[::1]:7070", "[fe80::1%lo]:7070", "lab:1", "unix:///nowhere/ampd.sock"}) {
    EXPECT_EQ(Run(absl::StrCat("context add lab '", address, "'")).exit_code, 0) << address;
  }
}

TEST_F(AmpctlContexts, AFileInPlaceOfASocket_IsNamed) {
  Write("text.txt", "x\n");
  const std::string file = absl::StrCat("unix:", folder_, "/text.txt");
  const std::string advice =
      " and not a socket; name the socket on which the server listens (the flag --socket of ampd-server)\n";
  const Result used = Run("job list --address " + file);
  EXPECT_EQ(used.exit_code, 2);
  EXPECT_EQ(used.err, absl::StrCat("error: the address '", file, "' from --address names a file", advice));
  const Result named = Run("context add lab unix:" + folder_);
  EXPECT_EQ(named.exit_code, 2);
  EXPECT_EQ(named.err,
            absl::StrCat("error: cannot add context 'lab': the address 'unix:", folder_, "' names a folder", advice));
  EXPECT_EQ(Run("job list --address unix:" + folder_ + "/none.sock").exit_code, 5) << "it may be made later";
}

TEST_F(AmpctlContexts, AFileThatIsNotUtf8_IsNamedWithTheOffset) {
  WriteFile("lab caf\xe9:1\n");
  ExpectBadFile(absl::StrCat("error: ", file_,
                             ": the byte 0xe9 at offset 7 is not UTF-8; correct the file or delete it"
                             "  [BAD_CONTEXT_FILE]\n"));
}

TEST_F(AmpctlContexts, AFolderInItsPlace_IsNamed) {
  std::filesystem::create_directories(file_);
  ExpectBadFile(absl::StrCat("error: cannot read the file of contexts ", file_,
                             ": it is a folder; correct that, or "
                             "name the server with --address HOST:PORT  [BAD_CONTEXT_FILE]\n"));
}

TEST_F(AmpctlContexts, ACurrentContextThatIsNotInTheFile_IsNamed) {
  WriteFile("current lab\nother 127.0.0.1:1\n");
  const Result result = Run("job list", "AMPD_NONE=1");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, absl::StrCat("error: ", file_,
                                     ": the current context 'lab' is not in the file; choose another: "
                                     "ampctl context use NAME  [BAD_CONTEXT_FILE]\n"));
  EXPECT_EQ(Run("context use other").exit_code, 0);
  EXPECT_THAT(Run("context show", "AMPD_NONE=1").out, HasSubstr("127.0.0.1:1  (from context other)"));
}

TEST_F(AmpctlContexts, WithoutHome_CommandsWorkAndNothingIsWrittenToTheRoot) {
  const bool existed = std::filesystem::exists("/.config/ampd");
  EXPECT_EQ(Run("job list --address " + fake_.address(), kNoHome).exit_code, 0);
  EXPECT_EQ(Run("job list", absl::StrCat(kNoHome, " AMPD_ADDRESS=", fake_.address())).exit_code, 0);
  EXPECT_THAT(Run("context show", kNoHome).out, HasSubstr("127.0.0.1:7070  (from the default)"));
  EXPECT_THAT(Run("job list --address lab", kNoHome).err, HasSubstr("the address 'lab' from --address is neither"));
  const std::string cannot = "error: there is no folder for the file of contexts, because HOME is ";
  const std::string advice =
      "; set HOME or XDG_CONFIG_HOME to the path of a folder of yours, or name the server with --address HOST:PORT\n";
  for (const char* command : {"context add lab h:1", "context use lab", "context list"}) {
    const Result result = Run(command, kNoHome);
    EXPECT_EQ(result.exit_code, 2) << command;
    EXPECT_EQ(result.err, cannot + "not set" + advice) << command;
  }
  EXPECT_EQ(Run("context add lab h:1", "env -u XDG_CONFIG_HOME HOME=/").err, cannot + "'/'" + advice);
  EXPECT_EQ(Run("context add lab h:1", "env -u XDG_CONFIG_HOME HOME=here").err, cannot + "'here'" + advice);
  EXPECT_EQ(Run("context add lab h:1", "env -u HOME XDG_CONFIG_HOME=").err, cannot + "not set" + advice);
  EXPECT_EQ(std::filesystem::exists("/.config/ampd"), existed);
  EXPECT_EQ(Run("context add lab h:1", "env -u XDG_CONFIG_HOME HOME=" + folder_).exit_code, 0);
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/.config/ampd/contexts"));
}

TEST_F(AmpctlContexts, AFolderThatCannotBeCreated_IsNamed) {
  Write("taken", "");
  const Result result = Run("context add lab h:1", absl::StrCat("XDG_CONFIG_HOME=", folder_, "/taken/config"));
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith(absl::StrCat("error: cannot read the file of contexts ", folder_,
                                                  "/taken/config/ampd/contexts: Not a directory; ")));
  const Result unwritable = Run("context add lab h:1", "XDG_CONFIG_HOME=/proc");
  EXPECT_EQ(unwritable.exit_code, 2);
  EXPECT_THAT(unwritable.err, StartsWith("error: cannot write the file of contexts /proc/ampd/contexts: "));
  EXPECT_THAT(unwritable.err, HasSubstr("; correct that, or set XDG_CONFIG_HOME to a folder of yours  "));
}

TEST_F(AmpctlContexts, AProjectsContextThatCannotBeRead_IsAnErrorAndNotIgnored) {
  std::filesystem::create_directories(folder_ + "/.ampd/context");
  const Result result = Run("context show", "AMPD_NONE=1");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_THAT(result.err, StartsWith("error: cannot read the file of contexts .ampd/context: Is a directory; "));
}

TEST_F(AmpctlContexts, EveryChange_SaysWhatItDid) {
  const std::string none = "AMPD_NONE=1";
  EXPECT_EQ(Run("context add lab h:1", none).err, "commands now use context lab by default: h:1\n");
  EXPECT_EQ(Run("context add home h:2", none).err, "to use this server by default: ampctl context use home\n");
  EXPECT_EQ(
      Run("context add home h:3", none).err,
      "replaced context home: it was h:2 and is now h:3\nto use this server by default: ampctl context use home\n");
  EXPECT_EQ(Run("context use home", none).err, "commands now use context home by default: h:3\n");
  EXPECT_EQ(Run("context use home -q", none).err, "");
}

TEST_F(AmpctlContexts, AddingAServerAgainWithAnotherTenant_KeepsItsToken) {
  Write("token", "t\n");
  ASSERT_EQ(Run("context add lab 127.0.0.1:1 --token-file token").exit_code, 0);
  EXPECT_THAT(Run("context add lab 127.0.0.1:1 --tenant team").err, HasSubstr("tenant=team  token-file="));
  EXPECT_THAT(Run("context add lab 127.0.0.1:2 --tenant team").err, HasSubstr("is now 127.0.0.1:2  tenant=team\n"));
}

TEST_F(AmpctlContexts, ADefaultThatIsNotUsedHere_IsWarnedOf) {
  WriteFile("current lab\nlab h:1\nhome h:2\n");
  std::filesystem::create_directories(folder_ + "/.ampd");
  Write(".ampd/context", "h:9\n");
  const std::string warning =
      "warning: here, commands still use h:9, because .ampd/context takes precedence (see: ampctl context show)\n";
  EXPECT_THAT(Run("context use home", "AMPD_NONE=1").err, HasSubstr(warning));
  EXPECT_THAT(Run("context add home h:3", "AMPD_NONE=1").err, HasSubstr(warning));
  EXPECT_THAT(Run("context use lab", "AMPD_ADDRESS=h:7").err,
              HasSubstr("still use h:7, because AMPD_ADDRESS takes precedence"));
}

TEST_F(AmpctlContexts, ARemovedContext_IsNoLongerThere) {
  WriteFile("current lab\nlab h:1\nhome h:2\n");
  EXPECT_EQ(Run("context remove home", "AMPD_NONE=1").err, "removed context home: h:2\n");
  EXPECT_EQ(Run("context list -q").out, "lab\n");
  EXPECT_EQ(Run("context rm lab", "AMPD_NONE=1").err,
            "removed context lab: h:1\nthere is no default context now; to choose one: ampctl context use NAME\n");
  EXPECT_THAT(Run("context show", "AMPD_NONE=1").out, HasSubstr("(from the default)"));
  const Result missing = Run("context remove lab");
  EXPECT_EQ(missing.exit_code, 3);
  EXPECT_THAT(
      missing.err,
      HasSubstr("there is no context 'lab'  [CONTEXT_NOT_FOUND]\n  try: list what there is: ampctl context list\n"));
}

// Runs ampctl as a user who may not read the folder of the file. As root, the test changes the user, because root may
// read every file.
TEST_F(AmpctlContexts, AFileOfAnotherUser_IsNamed) {
  WriteFile("lab 127.0.0.1:1\n");
  ASSERT_EQ(chmod((folder_ + "/config").c_str(), 0700), 0);
  ASSERT_EQ(chmod(folder_.c_str(), 0777), 0);
  std::string as_user = "AMPD_NONE=1";
  if (geteuid() == 0) {
    as_user += " setpriv --reuid=65534 --regid=65534 --clear-groups";
    if (Run("--version", as_user).exit_code != 0) {
      GTEST_SKIP() << "another user cannot run " AMPD_BIN_DIR "/ampctl";
    }
  } else {
    ASSERT_EQ(chmod((folder_ + "/config").c_str(), 0), 0);
  }
  const Result result = Run("job list", as_user);
  const Result written = Run("context add lab h:1", as_user);
  const Result addressed = Run("job list --address " + fake_.address(), as_user);
  ASSERT_EQ(chmod((folder_ + "/config").c_str(), 0700), 0);
  const std::string error = absl::StrCat("error: cannot read the file of contexts ", file_,
                                         ": Permission denied; correct that, or name the "
                                         "server with --address HOST:PORT  [BAD_CONTEXT_FILE]\n");
  EXPECT_EQ(result.exit_code, 2);
  EXPECT_EQ(result.err, error);
  EXPECT_EQ(written.err, error);
  EXPECT_EQ(addressed.exit_code, 0) << addressed.err;
}

}  // namespace
}  // namespace ampd::client
