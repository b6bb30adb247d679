#pragma once

#include <string>
#include <string_view>

// Converts values of options, and names, from the notation of other programs to the notation of ampctl.
namespace ampd::client {

// The kinds of values that ForeignValue converts.
inline constexpr std::string_view kListFormat = "FORMAT";         // Slurm's columns: %i
inline constexpr std::string_view kListOrder = "ORDER";           // .metadata.name, or Slurm's -p
inline constexpr std::string_view kFieldSelector = "SELECTOR";    // status.phase=Running
inline constexpr std::string_view kInput = "INPUT";               // GitHub, for a workflow: epochs=2
inline constexpr std::string_view kStateToWaitFor = "CONDITION";  // condition=Ready
inline constexpr std::string_view kServerAddress = "ADDRESS";     // lab:7070, or https://lab
inline constexpr std::string_view kServer = "SERVER";             // a host, for a command that asks its server
inline constexpr std::string_view kWorkflow = "WORKFLOW";         // GitHub: the name of a workflow, or its file

// The option of `ampctl job list` that lists the jobs that have not ended.
inline constexpr char kFilterNotEnded[] = "--filter 'state!=succeeded AND state!=failed AND state!=cancelled'";

// Returns the words that mean the same in a command line of ampctl: "--sort name" for the value ".metadata.name" of the
// kind kListOrder. Empty if ampctl has no such words.
std::string ForeignValue(std::string_view kind, const std::string& value);

// Returns the state to give to `job wait --for` in place of `value`: "RUNNING" for kubectl's "condition=Ready". Empty
// for a word that means the end of a job, for which `job wait` waits without --for, and for every other word.
std::string StateToWaitFor(const std::string& value);

// Returns the option that filters jobs by a comma-separated list of states. The states have the names of other
// programs: "--filter state=queued" for Slurm's "PD". Empty if a word in the list is not a state.
std::string FilterForStates(const std::string& words);

// Returns the filter for the jobs of several users. Commas separate the names in `words`. In ampd the kind of an
// identity stands in front of an owner's name: token:ann. Empty if a word cannot be a name.
std::string FilterForOwners(const std::string& words);

// Returns the filter for the jobs whose column, such as "name", has one of the values. Commas separate these in
// `words`. Empty if a value would need quotes.
std::string FilterForColumn(const std::string& column, const std::string& words);

// Returns the filter for a label selector of kubectl. The selector is KEY in (VALUE,VALUE), KEY notin (VALUE,VALUE), or
// terms with commas between them: KEY=VALUE, KEY==VALUE, KEY!=VALUE, KEY or !KEY. Empty if a key or a value would need
// quotes.
std::string FilterForLabels(const std::string& selector);

// Returns the option that lists only the jobs that the word stands for: "--filter state=running" for the state
// "RUNNING", and "--filter name=x" for the term "name=x". Empty if the word is neither.
std::string FilterForWord(const std::string& word);

// Whether the word looks like the address of a server, with or without a scheme and a port.
bool LooksLikeAddress(const std::string& word);

// Returns the address in the form that ampctl takes: without a scheme and a path. To an address without a port it
// appends ":PORT", which the user must replace.
std::string AsAddress(const std::string& word);

// Whether the text is a number above 1, or ends in one: "2", "gpu:2".
bool IsMoreThanOne(const std::string& text);

}  // namespace ampd::client
