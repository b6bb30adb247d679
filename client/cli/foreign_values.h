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

// Returns the words of ampctl that mean the value, such as "--sort name" for the order ".metadata.name". Empty if
// ampctl has nothing for it.
std::string ForeignValue(std::string_view kind, const std::string& value);

// Returns the state for which `job wait --for` waits that the value means, such as "RUNNING" for "condition=Ready".
// Empty if it is none, or means the end of a job.
std::string StateToWaitFor(const std::string& value);

// Whether the word looks like the address of a server, with or without a scheme and a port.
bool LooksLikeAddress(const std::string& word);

// Returns the address as ampctl takes it: without a scheme and a path, and with PORT in place of a port that lacks.
std::string AsAddress(const std::string& word);

// Whether the text is a number above 1, or ends in one: "2", "gpu:2".
bool IsMoreThanOne(const std::string& text);

}  // namespace ampd::client
