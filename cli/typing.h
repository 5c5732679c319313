// What to say of words on the command line that are not understood: the nearest that is, and where
// to read more.
#pragma once

#include <optional>
#include <string>
#include <vector>

namespace ds {

class VerbApp;

// Returns the message about the first option among `words`, which the verb did not take; nothing if
// there is no option among them.
std::optional<std::string> unknown_option(const VerbApp& app,
                                          const std::vector<std::string>& words);

// Returns the message about a value that is none of `choices`.
std::string unknown_choice(const std::string& value, const std::vector<std::string>& choices);

// Returns the message about a first word that cannot be the name of a configuration: it is neither
// a verb nor a file.
std::string unknown_verb(const std::string& word);

// Whether `word` is written as verbs are: a file's name has a dot or a slash, base64 is longer and
// has capitals.
bool is_written_as_verb(const std::string& word);

}  // namespace ds
