#include "client/cli/tables/foreign_word_tables.h"

namespace ampd::client {
namespace {

constexpr ForeignRow kGhRows[] = {
    {"run list", kListJobs},
    {"run view", kShowJob},
    {"run view --log|--log-failed", kReadLog},
    {"run view YAML", kCheckFile},
    {"run view|watch --exit-status", kWaitForCode},
    {"run view|watch --web", kNoWebPage},
    {"run view|watch ID --web", kNoWebPageOfJob},
    {"run watch", kWatchJob},
    {"run cancel", kCancel},
    {"run rerun", kRunAgain},
    {"run rerun --failed", kRetry},
    {"run delete", kDeleteJob},
    {"run download", kListOutputs},
    {"run download", kDownloadCheckpoint},
    {"workflow view", kShowJob},
    {"workflow view YAML", kCheckFile},
    {"workflow run", kSubmitAndWatch},
    {"workflow disable|enable", kNoWorkflows},
    {"auth status", kWhoAmI},
    {"auth login", kLogin},
    {"auth refresh", kLoginAgain},
    {"auth setup-git", kNoSuchThing},
    {"auth logout", kLogout},
    {"auth switch", kUseContext},
    {"auth list|ls", kListTokens},
    {"auth create|add|new", kCreateToken},
    {"auth revoke|delete|rm|remove", kRevokeToken},
    {"logout", kLogout},
    {"whoami|me", kWhoAmI},
    {"alias|aliases", kNoAliases},
    {"browse|web|open|url", kNoWebPage},
    {"cache", kNoCache},
    {"extension|extensions|ext|plugins|addon", kNoExtensions},
    {"variable|variables|env|environment", kSetField},
    {"gh status", kListJobs},
    {"gh environment", {"see the environment variables that ampctl reads", "help environment"}},
    {"gh reference", kCommands},
    {"gh exit-codes", {"see the exit codes of ampctl", "help exit-codes"}},
    {"gh config", kNoConfig},
    {"gh label", kNoLabels},
    {"gh search", kNoRepositories},
    {"gh search job", kFindJobs},
    {"gh search code|commits|issues|prs|repos NAME", kFindJobs},
    {"search code|commits|issues|prs|repos NAME", kFindJobs},
    {"api", {"let a program read the answer of a command, as JSON", "job list -o json"}},
    {"org|orgs", kListTenants},
    {"project|projects|workspace|workspaces", kListTenants},
    {"project|workspace create", kCreateTenant},
    {"codespace|codespaces|cs", kNoShell},
    {"ssh-key|gpg-key", kListTokens},
    {"ssh-key|gpg-key add", kCreateToken},
    {"ssh-key|gpg-key delete", kRevokeToken},
    {"attestation verify", {"check a checkpoint's files", "checkpoint verify FOLDER"}},
    {"attestation", kNoSuchThing},
    {"pr|repo|issue|issues|gist|ruleset|copilot|preview|agent-task", kNoRepositories},
    {"release list|create|view|edit|upload|download|delete|delete-asset|verify", kNoRepositories},
};

}  // namespace

std::span<const ForeignRow> GhRows() { return kGhRows; }

}  // namespace ampd::client
