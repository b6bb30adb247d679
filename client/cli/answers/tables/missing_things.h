#pragma once

#include "client/cli/answers/tables/foreign_answers.h"

// The answers to commands of other programs for which ampd has no equivalent. Each answer says what ampd has instead.
namespace ampd::client {

inline constexpr ForeignAnswer kNoSuchThing = {"ampctl has nothing similar (to see its commands: ampctl --help)", ""};
inline constexpr ForeignAnswer kOnlyPriority = {
    "after a job is submitted, only its priority can be changed (ampctl job update ID --priority N); to change more, "
    "submit its file again with --set",
    ""};
inline constexpr ForeignAnswer kOneDevice = {
    "a job runs on one device of one worker; to use several devices, submit several jobs", ""};
inline constexpr ForeignAnswer kNoDependency = {
    "a job can't wait for another; in a script: ampctl job wait ID && ampctl job submit -f FILE", ""};
inline constexpr ForeignAnswer kNoArray = {
    "submit the job once for each number, here as its seed (there are no job arrays)",
    "job submit -f FILE --set train.seed=$i"};
inline constexpr ForeignAnswer kSubmitAfter = {
    "submit a job after another one (a job can't wait for another by itself)", "job submit -f FILE"};
inline constexpr ForeignAnswer kHoldLaterFile = {
    "submit a job that you then pause with ampctl job pause ID (a job can't be submitted on hold)",
    "job submit -f FILE"};
inline constexpr ForeignAnswer kHoldLater = {
    "a job can't be submitted on hold; submit it, then pause it: ampctl job submit -f FILE && ampctl job pause ID", ""};
inline constexpr ForeignAnswer kNoShell = {
    "ampctl runs no commands on workers; to see what a job does: ampctl job watch ID", ""};
inline constexpr ForeignAnswer kNoShellInJob = {"see what a job does (ampctl runs no commands in it)", "job watch ID"};
inline constexpr ForeignAnswer kNoPorts = {"jobs listen on no ports; to see what a job does: ampctl job watch ID", ""};
inline constexpr ForeignAnswer kNoPortsOfJob = {"see what a job does (jobs listen on no ports)", "job watch ID"};
inline constexpr ForeignAnswer kNoServices = {"see the jobs (ampd runs no services, only training jobs)", "job list"};
inline constexpr ForeignAnswer kNoServing = {
    "ampd serves no models; to make predictions from a file: ampctl job predict --checkpoint ID -f FILE", ""};
inline constexpr ForeignAnswer kNoImages = {
    "jobs have no container images: a job file names a model and data (ampctl help job-file)", ""};
inline constexpr ForeignAnswer kNoSecrets = {
    "jobs have no secrets; a token for the server is made with: ampctl auth token create NAME --role ROLE", ""};
inline constexpr ForeignAnswer kNoVolumes = {
    "jobs read their data from data roots, which are folders of the workers (docs/data.md); to list the files on the "
    "server: ampctl artifact list",
    ""};
inline constexpr ForeignAnswer kNoLabels = {
    "the labels of a submitted job can't be changed; set them when you submit it: --set labels.KEY=VALUE", ""};
inline constexpr ForeignAnswer kNoName = {
    "a job's name can't be changed; to submit the job under another name: ampctl job submit -f FILE "
    "--name NAME",
    ""};
inline constexpr ForeignAnswer kNoUndo = {
    "a job has no earlier versions; to train from one of its checkpoints, name the checkpoint in a new job file "
    "(model.initial_checkpoint)",
    ""};
inline constexpr ForeignAnswer kNoWebPage = {
    "ampd has no web page; to watch a job: ampctl job watch ID; dashboards for Grafana: docs/operator/monitor.md", ""};
inline constexpr ForeignAnswer kNoWebPageOfJob = {"watch a job (ampd has no web page)", "job watch ID"};
inline constexpr ForeignAnswer kNoWorkflows = {
    "ampd has no workflows or triggers: a job starts when its file is submitted (ampctl job submit -f FILE)", ""};
inline constexpr ForeignAnswer kNoAliases = {
    "ampctl has no aliases of its own; define an alias in your shell: alias jobs='ampctl job list'", ""};
inline constexpr ForeignAnswer kNoExtensions = {"ampctl has no extensions; scripts read what it prints with -o json",
                                                ""};
inline constexpr ForeignAnswer kNoCache = {"list the files on the server (there is no cache to manage)",
                                           "artifact list"};
inline constexpr ForeignAnswer kNoConfig = {
    "ampctl's only settings are named servers (ampctl context list) and environment variables (ampctl help "
    "environment)",
    ""};
inline constexpr ForeignAnswer kNoServerConfig = {
    "no command shows the configuration of the server: it is in the flags and files with which ampd-server runs "
    "(docs/operator/configure.md); to check the server: ampctl health",
    ""};
inline constexpr ForeignAnswer kNoRepositories = {
    "ampd knows no repositories, issues or releases; a job is submitted from a file: ampctl job submit -f FILE", ""};
inline constexpr ForeignAnswer kNoReleases = {"list the files on the server (ampd has no releases)", "artifact list"};
inline constexpr ForeignAnswer kNoUploadOfRelease = {"upload a model to the server (ampd has no releases)",
                                                     "artifact upload FILE"};
inline constexpr ForeignAnswer kNoMachines = {
    "ampctl starts and stops no machines; to use another one, run ampd-worker --server HOST:PORT --state-dir FOLDER on "
    "it",
    ""};
inline constexpr ForeignAnswer kNoReservations = {
    "workers can't be reserved; to let one job go first: ampctl job update ID --priority N", ""};
inline constexpr ForeignAnswer kNoDataList = {
    "ampctl does not list data sets: a job file names files in the data roots of the workers (docs/data.md)", ""};

inline constexpr ForeignAnswer kNoWorkerLabels = {
    "workers have no labels; a job can name the worker that it needs: submit it with --set resources.worker=NAME", ""};
inline constexpr ForeignAnswer kNoLicenses = {
    "ampd counts no licenses; the license of ampd itself is in the file LICENSE of its source", ""};
inline constexpr ForeignAnswer kOwnPolicy = {
    "a precision policy of your own is written in the job file, in the field precision (ampctl help job-file)", ""};
inline constexpr ForeignAnswer kWorkerLog = {
    "a worker's log is on its machine: journalctl --unit ampd-worker; a job's log: ampctl job logs ID", ""};
inline constexpr ForeignAnswer kServerLog = {
    "the server's log is on its machine: journalctl --unit ampd-server; a job's log: ampctl job logs ID", ""};
inline constexpr ForeignAnswer kInstalled = {
    "ampctl does not install or upgrade itself; the package manager that installed it does; to see the versions: "
    "ampctl version",
    ""};
inline constexpr ForeignAnswer kReportBug = {
    "report a bug to the maintainers of the repository from which you got ampd, with the versions: ampctl version", ""};
inline constexpr ForeignAnswer kNoRoleFiles = {
    "roles are not read from files; a token has the role with which it is made: ampctl auth token create NAME --role "
    "ROLE",
    ""};
inline constexpr ForeignAnswer kNoWebhooks = {
    "the server calls no webhooks; a script can wait for a job: ampctl job wait ID", ""};
inline constexpr ForeignAnswer kCountJobs = {"to count the jobs: ampctl job list -q | wc -l", ""};

}  // namespace ampd::client
