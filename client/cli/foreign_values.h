#pragma once

#include <string>
#include <string_view>

// Values of options and names that other programs write in another way than ampctl.
namespace ampd::client {

// Kinds of values that ForeignValue reads.
inline constexpr std::string_view kListFormat = "FORMAT";         // Slurm's columns: %i
inline constexpr std::string_view kListOrder = "ORDER";           // .metadata.name, or Slurm's -p
inline constexpr std::string_view kFieldSelector = "SELECTOR";    // status.phase=Running
inline constexpr std::string_view kInput = "INPUT";               // GitHub, for a workflow: epochs=2
inline constexpr std::string_view kStateToWaitFor = "CONDITION";  // condition=Ready
inline constexpr std::string_view kServerAddress = "ADDRESS";     // lab:7070, or https://lab

// Returns the words of ampctl that mean the value, such as "--sort name" for the order ".metadata.name". Empty if
// ampctl has nothing for it.
std::string ForeignValue(std::string_view kind, const std::string& value);

// Returns the state for which `job wait --for` waits that the value means, such as "RUNNING" for "condition=Ready".
// Empty if it is none, or means the end of a job.
std::string StateToWaitFor(const std::string& value);

// Returns the filter for the states in a list with commas, as other programs call them: "--filter state=queued" for
// "PD". Empty if one is no state.
std::string FilterForStates(const std::string& words);

// Returns the filter for the jobs of several users. Commas separate the names in `words`. In ampd the kind of an
// identity stands in front of an owner's name: token:ann. Empty if a word cannot be a name.
std::string FilterForOwners(const std::string& words);

// Returns the filter for a label selector of kubectl. The selector is KEY in (VALUE,VALUE), or terms with commas
// between them: KEY=VALUE, KEY==VALUE or KEY!=VALUE. Empty for other selectors, such as a key alone.
std::string FilterForLabels(const std::string& selector);

// Returns the option that lists only the jobs that the word stands for: "--filter state=running" for the state
// "RUNNING", and "--filter name=x" for the term "name=x". Empty if the word is neither.
std::string FilterForWord(const std::string& word);

// Whether the word looks like the address of a server, with or without a scheme and a port.
bool LooksLikeAddress(const std::string& word);

// Returns the address as ampctl takes it: without a scheme and a path, and with PORT in place of a port that lacks.
std::string AsAddress(const std::string& word);

// Whether the text is a number above 1, or ends in one: "2", "gpu:2".
bool IsMoreThanOne(const std::string& text);

}  // namespace ampd::client
